// What the planners of kernels share: a nest on its way to plans, and numbers for kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/kernels/kernel_plan.hpp"

namespace tranship::gpu {

constexpr std::int64_t vector_bytes_max = 16;

/// A nest on its way to plans: loops with positive target strides, fastest in the target first.
struct Work {
  std::int64_t element_bytes = 0;
  std::int64_t source_offset = 0;
  std::int64_t target_offset = 0;
  std::vector<Loop> loops;
};

/// Drops loops of one index and turns those that walk the target backwards.
Work normalise(const LoopNest& nest);

Divisor make_divisor(std::int64_t number);
std::int64_t ceil_divide(std::int64_t number, std::int64_t by);

/// About `wished` indices, such that boxes of so many fill a loop of `extent` with little left
/// over: a multiple of `step` up to `most`, or `wished` itself.
std::int64_t even_extent(std::int64_t extent, std::int64_t wished, std::int64_t step,
                         std::int64_t most);

/// The largest power of two up to a vector that divides all the numbers that were or-ed.
std::int64_t common_bytes(std::int64_t bits);
std::int64_t address_bits(const std::byte* address, std::int64_t offset);

}  // namespace tranship::gpu
