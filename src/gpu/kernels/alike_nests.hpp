// Nests in groups of one shape, so that each shape is planned once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/kernels/kernel_plan.hpp"

namespace tranship::gpu {

/// The nests of one shape, and the or-ed bits of all the addresses at which they begin.
struct AlikeNests {
  std::vector<const LoopNest*> nests;
  std::int64_t source_bits = 0;
  std::int64_t target_bits = 0;

  /// Plans a nest of this shape for any of these addresses. The plans' offsets count from where a
  /// nest begins.
  std::vector<KernelPlan> plan(const KernelTuning& tuning) const;
};

/// Groups nests by shape, in the order of the shapes. The groups point into `nests`. Appends to
/// `rest` those that walk the target backwards, whose first address is not their lowest.
std::vector<AlikeNests> group_by_shape(std::span<const LoopNest> nests, const std::byte* source,
                                       const std::byte* target, std::vector<LoopNest>& rest);

}  // namespace tranship::gpu
