#include "engine/recipe/block_ends.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/recipe/byte_blocks.hpp"

namespace tranship {
namespace {

/// Farthest distance of two blocks, in bytes, whose offsets are counted from one address.
constexpr std::int64_t span_most = std::int64_t{1} << 45;

Status check_overlaps(const BlockAddresses& blocks) {
  for (std::size_t k = 0; k < blocks.lengths.size(); ++k) {
    const std::int64_t distance = blocks.targets[k] - blocks.sources[k];
    if (distance >= blocks.lengths[k] || -distance >= blocks.lengths[k]) continue;
    return Error{ErrorCode::invalid_argument,
                 "source and target of pair " + std::to_string(k) + " overlap",
                 "copy to an array of its own first"};
  }
  return {};
}

/// Makes the addresses of one side offsets from the lowest, and returns the array that holds all.
Result<std::optional<Array>> array_of(std::span<std::int64_t> addresses,
                                      std::span<const std::int64_t> lengths) {
  const std::int64_t first = *std::ranges::min_element(addresses);
  std::int64_t bytes = 0;
  for (std::size_t k = 0; k < addresses.size(); ++k) {
    addresses[k] -= first;
    bytes = std::max(bytes, addresses[k] + lengths[k]);
  }
  if (bytes > span_most) return std::optional<Array>();
  auto view = byte_view(0, bytes);
  if (!view) return view.error();
  Array array;
  array.view = std::move(*view);
  array.place.address = reinterpret_cast<std::byte*>(first);
  array.memory_kind = MemoryKind::device;
  array.name = "arrays of a GPU";
  return std::optional(std::move(array));
}

}  // namespace

Result<std::optional<CopyPair>> block_ends(int device, const BlockAddresses& blocks,
                                           const std::shared_ptr<void>& owner) {
  if (Status status = check_overlaps(blocks); !status) return status.error();
  auto source = array_of(blocks.sources, blocks.lengths);
  if (!source) return source.error();
  auto target = array_of(blocks.targets, blocks.lengths);
  if (!target) return target.error();
  if (!*source || !*target) return std::optional<CopyPair>();
  CopyPair ends{std::move(**source), std::move(**target)};
  for (Array* array : {&ends.source, &ends.target}) {
    array->device = device;
    array->owner = owner;
  }
  return std::optional(std::move(ends));
}

}  // namespace tranship
