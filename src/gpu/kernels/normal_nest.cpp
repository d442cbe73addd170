#include "gpu/kernels/normal_nest.hpp"

#include <algorithm>
#include <bit>

#include "base/check.hpp"

namespace tranship::gpu {

Divisor make_divisor(std::int64_t number) {
  CHECK(number >= 1 && number < (std::int64_t{1} << 31), "a kernel divides by a number it cannot");
  Divisor result;
  result.divisor = static_cast<std::uint32_t>(number);
  result.shift = static_cast<std::uint32_t>(std::bit_width(result.divisor - 1));
  const std::uint64_t over = (std::uint64_t{1} << result.shift) - result.divisor;
  result.multiplier = static_cast<std::uint32_t>((over << 32) / result.divisor + 1);
  return result;
}

std::int64_t ceil_divide(std::int64_t number, std::int64_t by) { return (number + by - 1) / by; }

std::int64_t round_up(std::int64_t number, std::int64_t step) {
  return ceil_divide(number, step) * step;
}

std::int64_t even_extent(std::int64_t extent, std::int64_t wished, std::int64_t step,
                         std::int64_t most) {
  const auto filled = [&](std::int64_t box) {
    return static_cast<double>(extent) / static_cast<double>(ceil_divide(extent, box) * box);
  };
  // Within a quarter of `wished`: farther off, shorter runs or fewer blocks cost more than is
  // saved.
  const std::int64_t low = ceil_divide(3 * wished, 4 * step) * step;
  const std::int64_t high = std::min(most, 5 * wished / 4);
  // Least gain in the filled share of the boxes for which another extent than `wished` is chosen.
  constexpr double gain = 0.02;
  std::int64_t best = wished;
  double most_filled = filled(wished) + gain;
  for (std::int64_t box = low; box <= high; box += step) {
    if (filled(box) <= most_filled) continue;
    best = box;
    most_filled = filled(box);
  }
  return best;
}

std::int64_t normal_bytes(const NormalNest& normal) {
  std::int64_t bytes = normal.element_bytes;
  for (const Loop& loop : normal.loops) bytes *= loop.extent;
  return bytes;
}

NormalNest normalise(const LoopNest& nest) {
  NormalNest normal{nest.element_bytes, nest.source_offset, nest.target_offset, {}};
  for (std::size_t k = 0; k < static_cast<std::size_t>(nest.rank); ++k) {
    Loop loop = nest.loops[k];
    if (loop.extent == 1) continue;
    if (loop.target_stride < 0) {
      normal.source_offset += (loop.extent - 1) * loop.source_stride;
      normal.target_offset += (loop.extent - 1) * loop.target_stride;
      loop.source_stride = -loop.source_stride;
      loop.target_stride = -loop.target_stride;
    }
    normal.loops.push_back(loop);
  }
  std::stable_sort(normal.loops.begin(), normal.loops.end(),
                   [](const Loop& a, const Loop& b) { return a.target_stride < b.target_stride; });
  return normal;
}

std::int64_t lowest_bit(std::int64_t bits, std::int64_t most) {
  bits |= most;
  return bits & -bits;
}

std::int64_t common_bytes(std::int64_t bits) { return lowest_bit(bits, vector_bytes_max); }

std::int64_t address_bits(const std::byte* address, std::int64_t offset) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(address)) + offset;
}

}  // namespace tranship::gpu
