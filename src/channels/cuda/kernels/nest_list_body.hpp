// What one thread of one block does of a list of nests.
#pragma once

#include "channels/cuda/kernels/nest_list.hpp"
#include "channels/cuda/kernels/pieces_body.hpp"

namespace tranship::cuda {

/// The last group that begins at the block, or before it.
TRANSHIP_DEVICE std::int32_t find_group(const NestGroup* groups, std::int32_t count,
                                        std::uint32_t block) {
  std::int32_t first = 0;
  for (std::int32_t end = count; end - first > 1;) {
    const std::int32_t middle = first + (end - first) / 2;
    (groups[middle].first_block <= block ? first : end) = middle;
  }
  return first;
}

template <int element_bytes, int loops>
TRANSHIP_DEVICE void move_listed(const NestGroup& group, const NestOffsets* nests,
                                 std::uint32_t block, const std::byte* source, std::byte* target,
                                 std::uint32_t thread) {
  const std::uint32_t of_group = block - group.first_block;
  const std::uint32_t nest = divide(of_group, group.blocks);
  const std::uint32_t of_nest = of_group - nest * group.blocks.divisor;
  const NestOffsets& at = nests[group.first_nest + static_cast<std::int32_t>(nest)];
  source += at.source;
  target += at.target;
  if (group.plan.kind == KernelKind::runs) {
    return move_run(group.plan, source, target, of_nest, thread);
  }
  const Place place = locate(group.plan, of_nest, source, target);
  if (place.full) {
    move_direct<element_bytes, loops, true>(group.plan, place, thread);
  } else {
    move_direct<element_bytes, loops, false>(group.plan, place, thread);
  }
}

}  // namespace tranship::cuda
