// Views of arrays with other strides, and copies without an engine: what NumPy's ways of indexing,
// reading and assigning need.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <chrono>
#include <functional>
#include <utility>

#include "bindings.hpp"
#include "channels/file/file_channel.hpp"
#include "channels/host/copy.hpp"
#include "data/lowering.hpp"
#include "engine/checks.hpp"
#include "engine/recipe/byte_blocks.hpp"
#include "engine/recipe/recipes.hpp"
#include "integer_lists.hpp"

namespace tranship::python {
namespace {

/// Returns the fields of an array whose dimensions have one stride each.
/// @throws Error (unsupported) for a dimension that is stored in blocks
StridedFields strided_fields(const Array& array) {
  const Mapping& mapping = *array.view.mapping;
  StridedFields fields;
  for (const Placement& placed : mapping.fields()) {
    std::int64_t offset = placed.offset;
    std::vector<std::int64_t> strides;
    for (std::size_t k = 0; k < mapping.space().size(); ++k) {
      if (placed.dimension[k].count > 1) {
        raise({ErrorCode::unsupported,
               "dimension \"" + mapping.space()[k].name + "\" is stored in blocks",
               "slice this array with ranges only, or copy it to an array without blocks"});
      }
      offset += placed.dimension[k].offset(array.view.lower[k]);
      strides.push_back(placed.dimension[k].level[0].stride);
    }
    fields.emplace_back(placed.field.name, placed.field.type, placed.field.bytes, offset,
                        std::move(strides));
  }
  return fields;
}

/// Returns other elements of the same memory. named: Whether its dimensions have names of the
/// user's.
/// @throws Error (out_of_range) for an element outside the bytes of the given array
Array restrided(const Array& array, const Extents& extents, const StridedFields& fields,
                bool named) {
  Array part = array;
  part.view = View::whole(mapping_of(extents, fields));
  part.named = named;
  const Mapping& inner = *part.view.mapping;
  const Mapping& outer = *array.view.mapping;
  const bool inside = part.view.points() == 0 || (inner.begin_bytes() >= outer.begin_bytes() &&
                                                  inner.end_bytes() <= outer.end_bytes());
  if (!inside) {
    raise({ErrorCode::out_of_range, "a view reaches outside the bytes of its array"});
  }
  return part;
}

/// Returns the array with dimension `order[k]` as its dimension k.
Array permuted(const Array& array, const std::vector<int>& order) {
  Array part = array;
  part.view.mapping = array.view.mapping->permuted(order);
  for (std::size_t k = 0; k < order.size(); ++k) {
    const auto from = static_cast<std::size_t>(order[k]);
    part.view.lower[k] = array.view.lower[from];
    part.view.extents[k] = array.view.extents[from];
  }
  return part;
}

/// Returns the array with dimensions that match others by their position.
Array by_position(const Array& array) {
  Array part = array;
  part.named = false;
  return part;
}

/// Returns the bytes among which the elements of an array lie, as an array, and the offset of the
/// first one from the array's base.
std::pair<Array, std::int64_t> block(const Array& array) {
  const Mapping& mapping = *array.view.mapping;
  const std::int64_t begin = mapping.begin_bytes();
  Array bytes = array;
  bytes.view = unwrap(byte_view(begin, mapping.end_bytes() - begin));
  bytes.named = false;
  return {std::move(bytes), begin};
}

/// Returns the address of the base of an array in the memory of this process.
/// @throws Error (unsupported) for arrays in files and in other processes
std::uintptr_t address(const Array& array) {
  if (array.place.attachment != nullptr || array.liveness || !array.place.address) {
    raise({ErrorCode::unsupported, array.name + " does not lie in memory of this process",
           "copy it to an array that does"});
  }
  return reinterpret_cast<std::uintptr_t>(array.place.address);
}

File* opened_file(const Array& array) { return dynamic_cast<File*>(array.place.attachment); }

/// Waits for the one request of a channel.
Status carried(const Request& request) {
  FileChannelOptions options;
  options.copy = copy_nests;
  options.copy_lists = copy_indexed;
  FileChannel channel(std::move(options));
  if (Status submitted = channel.submit(request); !submitted) return submitted;
  std::array<Finished, 1> finished;
  while (channel.poll(finished) == 0) channel.idle(std::chrono::milliseconds(100));
  return finished.front().status;
}

Status carry_here(const Request& request, File* source, File* target) {
  if (source == nullptr && target == nullptr) {
    copy_nests(request.payload.nests(), request.source.address, request.target.address, false);
    copy_indexed(request.payload.indexed(), request.source.address, request.target.address, false);
    return {};
  }
  std::function<void(const Status&)> ended;
  if (target != nullptr) {
    ended = target->note_transfer("assignment", request.bytes);
    if (Status admitted = target->admits(false); !admitted) {
      if (ended) ended(admitted);
      return admitted;
    }
  }
  const Status status = carried(request);
  if (ended) ended(status);
  return status;
}

void check_kinds(const Array& source, const Array& target) {
  for (const Array* array : {&source, &target}) {
    const bool here = !array->liveness &&
                      (opened_file(*array) != nullptr || array->memory_kind == MemoryKind::host ||
                       array->memory_kind == MemoryKind::pinned);
    if (here) continue;
    raise({ErrorCode::invalid_argument, array->name + " is reached by an engine alone",
           "copy it with Engine.copy()"});
  }
  if (opened_file(source) != nullptr && opened_file(target) != nullptr) {
    raise({ErrorCode::invalid_argument, "both arrays lie in files",
           "copy one to the other with Engine.copy()"});
  }
}

/// Carries a request between two arrays, and waits for the end.
void carry_now(const Array& source, const Array& target, Request request) {
  File* from = opened_file(source);
  File* to = opened_file(target);
  if (from != nullptr) unwrap(from->admits(true));
  request.source = source.place;
  request.target = target.place;
  unwrap(released([&] { return carry_here(request, from, to); }));
}

/// Copies an array to another without an engine, and waits for the end. Both lie in host memory, or
/// one of them in a file.
void copy_now(nb::handle from, nb::handle into) {
  const Array source = array_of(from, false);
  const Array target = array_of(into, true);
  check_kinds(source, target);
  const View to = unwrap(check_pair(source, target));
  const auto fields = unwrap(match_fields(*source.view.mapping, *to.mapping));
  unwrap(check_overlap(source, target, to));
  std::vector<LoopNest> nests;
  lower({source.view.mapping.get(), source.view.lower}, {to.mapping.get(), to.lower},
        source.view.extents, fields, nests);
  Request request;
  request.payload = nests;
  request.bytes = source.view.bytes();
  if (request.bytes > 0) carry_now(source, target, request);
}

/// Copies pieces as Engine::copy_pieces() does, without an engine, and waits for the end. Both
/// arrays are blocks of bytes in host memory, or one of them in a file.
void copy_pieces_now(const Array& source, const Array& target, nb::handle source_offsets,
                     nb::handle target_offsets, nb::handle lengths) {
  constexpr std::int64_t any_length = 0;
  check_kinds(source, target);
  const IntegerLists lists({source_offsets, target_offsets, lengths}, "piece_lists");
  const PieceLists pieces{lists[0], lists[1], lists[2]};
  unwrap(check_pieces({source, target}, pieces));
  IndexedCopy copy;
  lower_pieces(pieces, begin_of(source), begin_of(target), any_length, copy);
  copy.finish();
  Request request;
  request.payload = copy.nests();
  for (const std::int64_t length : pieces.lengths) request.bytes += length;
  if (request.bytes > 0) carry_now(source, target, request);
}

}  // namespace

void bind_array_views(nb::module_& module) {
  module.attr("DIMENSIONS_MAX") = dimensions_max;
  module.def("strided_fields", &strided_fields, nb::arg("array"));
  module.def("restrided", &restrided, nb::arg("array"), nb::arg("extents"), nb::arg("fields"),
             nb::arg("named"));
  module.def("permuted", &permuted, nb::arg("array"), nb::arg("order"));
  module.def("by_position", &by_position, nb::arg("array"));
  module.def("block", &block, nb::arg("array"));
  module.def("address", &address, nb::arg("array"));
  module.def("copy_now", &copy_now, nb::arg("source"), nb::arg("target"),
             nb::sig("def copy_now(source: object, target: object) -> None"));
  module.def("copy_pieces_now", &copy_pieces_now, nb::arg("source"), nb::arg("target"),
             nb::arg("source_offsets"), nb::arg("target_offsets"), nb::arg("lengths"),
             nb::sig("def copy_pieces_now(source: Array, target: Array, source_offsets: object, "
                     "target_offsets: object, lengths: object) -> None"));
}

}  // namespace tranship::python
