// Common parts of the kernels' planners: a normalised nest, and numbers for kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/kernels/nest_plan.hpp"

namespace tranship::gpu {

constexpr std::int64_t vector_bytes_max = 16;
/// Shared memory, in bytes, that a block has without opting in to more.
constexpr std::int64_t shared_bytes_max = 49152;

/// A nest under planning: loops with positive target strides, fastest in the target first.
struct NormalNest {
  std::int64_t element_bytes = 0;
  std::int64_t source_offset = 0;
  std::int64_t target_offset = 0;
  std::vector<Loop> loops;
};

/// Returns the bytes that a nest moves.
std::int64_t normal_bytes(const NormalNest& normal);

/// Removes loops of one index and reverses those that walk the target backwards.
NormalNest normalise(const LoopNest& nest);

Divisor make_divisor(std::int64_t number);
std::int64_t ceil_divide(std::int64_t number, std::int64_t by);
std::int64_t round_up(std::int64_t number, std::int64_t step);

/// Returns about `wished` indices, such that boxes of that size fill a loop of `extent` with little
/// left over: a multiple of `step` up to `most`, or `wished` itself.
std::int64_t even_extent(std::int64_t extent, std::int64_t wished, std::int64_t step,
                         std::int64_t most);

/// Returns the largest power of two, up to `most`, which is one, that divides all the or-ed
/// numbers.
std::int64_t lowest_bit(std::int64_t bits, std::int64_t most);
/// Returns the largest power of two, up to a vector's bytes, that divides all the or-ed numbers.
std::int64_t common_bytes(std::int64_t bits);
std::int64_t address_bits(const std::byte* address, std::int64_t offset);

}  // namespace tranship::gpu
