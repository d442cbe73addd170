// One plan for many nests of one shape, launched once: such as transposes of a thousand matrices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/kernels/kernel_plan.hpp"

namespace tranship::gpu {

/// Where a nest begins, in bytes from a launch's two addresses.
struct NestOrigin {
  std::int64_t source = 0;
  std::int64_t target = 0;
};

/// The nests of one launch, as the GPU reads them.
struct Repeats {
  const NestOrigin* origins = nullptr;  ///< null: one nest, which begins at the launch's addresses
  std::int64_t count = 1;
  Divisor blocks;  ///< blocks of each nest
};

/// A plan that is launched once for several nests of its shape.
struct RepeatedNest {
  KernelPlan plan;
  std::size_t first = 0;  ///< its nests' first origin in the list of all
  std::int64_t count = 0;
};

/// Returns what a launch passes to the kernel. origins: those of all plans, where the kernel reads
/// them.
Repeats repeats_of(const RepeatedNest& repeated, const NestOrigin* origins);

/// Plans nests that pass through shared memory: those of one shape together. Appends their origins,
/// and to `rest` all nests that have no others of their shape beside them.
void plan_repeats(std::span<const LoopNest> nests, const std::byte* source, const std::byte* target,
                  std::vector<RepeatedNest>& repeated, std::vector<NestOrigin>& origins,
                  std::vector<LoopNest>& rest, const KernelTuning& tuning = {});

}  // namespace tranship::gpu
