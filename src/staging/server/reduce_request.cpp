// Numbers that the server reduces where they lie.
#include <algorithm>
#include <thread>

#include "staging/server/service.hpp"

namespace tranship::staging {
namespace {

/// Bytes for which a thread pays.
constexpr std::int64_t thread_bytes = std::int64_t{2} << 20;
constexpr std::int64_t threads_max = 8;

Error impossible() { return {ErrorCode::invalid_argument, "the part cannot be reduced so"}; }

}  // namespace

/// Other clients' requests are answered meanwhile: the lease keeps the object.
Result<std::size_t> Service::on(ClientConnection from, const protocol::Reduce& request,
                                ReplyTo<protocol::Reduce> reply) {
  if (!options_.address_of) {
    return Error{ErrorCode::unsupported,
                 "the server's memory is a GPU's, in which it computes nothing",
                 "get the box, and compute there"};
  }
  const auto type = number_type_from(request.type);
  const auto found = store_.in_memory(from, request.lease, request.object);
  if (!found) return found.error();
  const auto& [box, range] = *found;
  const Box& part = request.part;
  const bool lies = part.rank == box.rank && intersection(part, box) == part;
  if (!type || !lies || !fits(request.reduction, part, type->kind)) return impossible();
  const std::int64_t element_bytes = bytes_of(type->kind);
  if (box.points() * element_bytes > range.bytes) return impossible();
  const std::int64_t blocks = request.reduction.kind == ReductionKind::block_sums
                                  ? blocks_of(part, request.reduction).points()
                                  : 0;
  const auto sums_max = static_cast<std::int64_t>(reply.bytes() / sizeof(double));
  if (blocks > sums_max) return impossible();
  const NumberBox numbers{options_.address_of(range), box, *type};
  const std::int64_t threads =
      std::min({std::int64_t{std::thread::hardware_concurrency()}, threads_max,
                part.points() * element_bytes / thread_bytes + 1});
  Result<Reduced> reduced = Reduced{};
  copy_beside(
      [&] { reduced = reduce(numbers, part, request.reduction, static_cast<int>(threads)); });
  if (!reduced) return reduced.error();
  return reply(protocol::ReducedPart{std::move(*reduced)});
}

}  // namespace tranship::staging
