#include "engine/copy_blocks.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "base/lent_vector.hpp"
#include "engine/byte_blocks.hpp"
#include "engine/copy_lists.hpp"
#include "engine/copy_pieces.hpp"
#include "engine/spare_copy.hpp"

namespace tranship {
namespace {

using List = std::span<const std::int64_t>;

/// Farthest distance of two blocks, in bytes, whose offsets are counted from one address.
constexpr std::int64_t span_most = std::int64_t{1} << 45;

/// The blocks of one side as pieces of one long block, from the lowest address on.
struct Side {
  LentVector<std::int64_t> offsets;
  std::int64_t address = 0;
  std::int64_t bytes = 0;

  Side(List addresses, List lengths) {
    address = *std::min_element(addresses.begin(), addresses.end());
    offsets->resize(addresses.size());
    for (std::size_t k = 0; k < addresses.size(); ++k) {
      (*offsets)[k] = addresses[k] - address;
      bytes = std::max(bytes, (*offsets)[k] + lengths[k]);
    }
  }

  Array array(int device, const std::shared_ptr<void>& held) const {
    Array array;
    array.place.address = reinterpret_cast<std::byte*>(address);
    array.memory_kind = MemoryKind::device;
    array.device = device;
    array.name = "arrays of a GPU";
    array.owner = held;
    return array;
  }
};

Status check_overlaps(const PieceLists& blocks) {
  for (std::size_t k = 0; k < blocks.lengths.size(); ++k) {
    const std::int64_t distance = blocks.target_offsets[k] - blocks.source_offsets[k];
    if (distance >= blocks.lengths[k] || -distance >= blocks.lengths[k]) continue;
    return Error{ErrorCode::invalid_argument,
                 "source and target of pair " + std::to_string(k) + " overlap",
                 "copy to an array of its own first"};
  }
  return {};
}

}  // namespace

Result<std::optional<Event>> copy_blocks(CopyRunner& runner, int device, const PieceLists& blocks,
                                         const CopyOptions& options, std::shared_ptr<void> held) {
  if (Status status = check_overlaps(blocks); !status) return status.error();
  const Side source(blocks.source_offsets, blocks.lengths);
  const Side target(blocks.target_offsets, blocks.lengths);
  if (source.bytes > span_most || target.bytes > span_most) return std::optional<Event>();
  CopyPair ends{source.array(device, held), target.array(device, held)};
  for (auto [array, bytes] :
       {std::pair(&ends.source, source.bytes), {&ends.target, target.bytes}}) {
    auto view = byte_view(0, bytes);
    if (!view) return view.error();
    array->view = std::move(*view);
  }
  const PieceLists pieces{*source.offsets, *target.offsets, blocks.lengths};
  const PieceSurvey seen = survey(pieces, source.bytes, target.bytes);
  auto query = byte_query(runner, ends, seen.bytes, options);
  if (!query) return query.error();
  const auto path = path_of_list(runner, *query);
  if (!path) return path.error();
  // Only so: in any other form neighbours would be joined, which may be allocations of their own.
  if (!goes_as_run_list(*path, options, pieces.lengths.size(), seen.length_bound)) {
    return std::optional<Event>();
  }
  const auto runs = run_list_of(ends, pieces, seen);
  if (!runs) return std::optional<Event>();
  SpareCopy spare;
  auto event =
      carry_list(runner, plan_run_list(*path, std::move(ends), *runs), options, spare.copy());
  if (!event) return event.error();
  return std::optional<Event>(std::move(*event));
}

}  // namespace tranship
