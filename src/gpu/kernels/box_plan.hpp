// Plans that walk a nest box by box, through shared memory or without it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/kernels/kernel_plan.hpp"
#include "gpu/kernels/normal_nest.hpp"

namespace tranship::gpu {

/// Largest box, in bytes: an index within a box has 16 bits in the kernels.
constexpr std::int64_t box_bytes_max = 32768;

/// How a nest is carried.
struct BoxWay {
  bool direct = false;  ///< without shared memory
  KernelKind kind = KernelKind::box;
  KernelTuning tuning;
};

/// Plans a nest of at most kernel_loops_max loops.
KernelPlan plan_box(const NormalNest& normal, const std::byte* source, const std::byte* target,
                    const BoxWay& way);

/// Returns the loops' numbers, fastest in the source first.
std::vector<std::size_t> source_order(const std::vector<Loop>& loops);

}  // namespace tranship::gpu
