// Boxes of which a client wants a few numbers alone.
#include <algorithm>

#include "base/text.hpp"
#include "staging/client/client.hpp"
#include "staging/protocol/spans.hpp"

namespace tranship::staging {
namespace {

/// Returns whether a part of a box lies with a process that offers it.
bool has_offers(const LeasedBox& held) {
  return std::any_of(held.parts.begin(), held.parts.end(),
                     [&](const Part& part) { return held.objects[part.object].is_offered(); });
}

}  // namespace

Result<ReducedBox> Client::reduce(const GetRequest& request, const Reduction& reduction,
                                  std::chrono::milliseconds timeout) {
  return call([&] { return reduce_inside(request, reduction, end_ns(timeout)); });
}

Result<ReducedBox> Client::reduce_inside(const GetRequest& request, const Reduction& reduction,
                                         std::int64_t end) {
  const Timed span(engine_.trace(), *links_,
                   [&] { return call_span("reduce", request.variable, request.box, 0); });
  ReplyBuffer reply;
  const auto held = catalog_.get(request, reply, end);
  if (!held) return held.error();
  ReducedBox reduced{held->version};
  const auto type = number_type_from(held->type);
  Status status;
  if (!type || bytes_of(type->kind) != held->element_bytes) {
    status = Error{ErrorCode::invalid_argument,
                   in_quotes(request.variable) + " has elements of " + in_quotes(held->type) +
                       ", which are no numbers",
                   "get the box"};
  } else if (has_offers(*held)) {
    status = Error{ErrorCode::unsupported,
                   "a part of the box of " + in_quotes(request.variable) +
                       " lies in the memory of a process that offers it, where no server computes",
                   "get the box, and compute there"};
  } else if (!fits(reduction, request.box, type->kind)) {
    status = Error{ErrorCode::invalid_argument,
                   "the numbers of " + in_quotes(request.variable) + ", of " +
                       in_quotes(held->type) + ", cannot be reduced so",
                   "give edges that rise, and for each dimension the extent of a block, at least "
                   "1; complex numbers have a sum alone"};
  } else {
    reduced.numbers = class_of(type->kind);
    status = catalog_.take(*held, end, [&](const LeasedBox& here) -> Status {
      if (here.data.empty()) {
        return catalog_.reduce(here, *type, reduction, request.box, end, reduced.result);
      }
      const NumberBox numbers{here.data.data(), request.box, *type};
      auto result = staging::reduce(numbers, request.box, reduction, 1);
      if (!result) return result.error();
      reduced.result = std::move(*result);
      return {};
    });
  }
  catalog_.release(*held, {});
  if (!status) return status.error();
  return reduced;
}

}  // namespace tranship::staging
