// Blocks of memory of one GPU, given by their addresses.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "engine/copy_options.hpp"

namespace tranship {

/// Addresses and lengths of blocks: `lengths[k]` bytes are copied from one to the other.
struct BlockAddresses {
  std::span<std::int64_t> sources;
  std::span<std::int64_t> targets;
  std::span<const std::int64_t> lengths;
};

/// Returns arrays that reach from the lowest to the highest address of each side, and makes the
/// addresses offsets from those. Nothing if they lie too far apart. owner: Keeps the memory.
/// @error invalid_argument for two blocks of a pair that overlap
Result<std::optional<CopyPair>> block_ends(int device, const BlockAddresses& blocks,
                                           const std::shared_ptr<void>& owner);

}  // namespace tranship
