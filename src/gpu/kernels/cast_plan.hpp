// Plans of kernels that convert numbers on the way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/loop_nest.hpp"
#include "gpu/kernels/nest_plan.hpp"

namespace tranship::gpu {

/// Numbers that one thread converts together: as vectors where they follow each other.
constexpr int cast_together = 4;

/// The parameters of a kernel that converts the numbers of one nest. A block converts a box of it,
/// number by number in the target's order; or it passes the box through shared memory, so that the
/// source is read in its own order.
struct CastPlan {
  Conversion conversion{};
  std::int32_t rank = 0;
  bool shared = false;   ///< boxes pass through shared memory
  bool vectors = false;  ///< `cast_together` numbers along loop 0 are aligned vectors on both sides
  std::int32_t box_numbers = 1;
  std::int64_t source_offset = 0;
  std::int64_t target_offset = 0;
  Loop loops[kernel_loops_max];                   ///< of single numbers, the target's fastest first
  std::int32_t box[kernel_loops_max] = {};        ///< indices of each loop in a box
  Divisor boxes[kernel_loops_max];                ///< boxes along each loop
  std::int32_t in_source[kernel_loops_max] = {};  ///< loops, the source's fastest first
  std::int64_t blocks = 0;
  std::int32_t shared_bytes = 0;
};

/// Appends the plans that convert `nest` between two addresses: usually one, several if the nest
/// has more loops than a kernel walks. Of the addresses, only the alignment matters.
void plan_casts(const LoopNest& nest, const std::byte* source, const std::byte* target,
                std::vector<CastPlan>& plans);

}  // namespace tranship::gpu
