// Which of several nests of one shape a block moves.
#pragma once

#include "gpu/kernels/kernel_body.hpp"
#include "gpu/kernels/repeated_nest.hpp"

namespace tranship::gpu {

/// Moves the addresses to the nest of a block, and returns the block's number within that nest.
TRANSHIP_DEVICE std::uint32_t enter_nest(const Repeats& repeats, std::uint32_t block,
                                         const std::byte*& source, std::byte*& target) {
  if (repeats.origins == nullptr) return block;
  const std::uint32_t nest = divide(block, repeats.blocks);
  const NestOrigin origin = repeats.origins[nest];
  source += origin.source;
  target += origin.target;
  return block - nest * repeats.blocks.divisor;
}

}  // namespace tranship::gpu
