// Random nests that convert numbers, and a slow conversion, number by number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "channels/host/convert.hpp"
#include "data/loop_nest.hpp"

namespace tranship::test {

inline NumberType random_type(Random& random) {
  NumberType type;
  type.kind = static_cast<NumberKind>(random.between(0, number_kinds - 1));
  type.big_endian = bytes_of(type.kind) > 1 && random.chance(0.3);
  return type;
}

inline Conversion random_conversion(Random& random) {
  Conversion conversion;
  while (!conversion) conversion = {random_type(random), random_type(random)};
  return conversion;
}

inline std::vector<std::byte> random_bytes(Random& random, std::int64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next() >> 32);
  return bytes;
}

/// Converts number by number.
inline void convert_slowly(const LoopNest& nest, int rank, const std::byte* source,
                           std::byte* target) {
  if (rank > 0) {
    const Loop& loop = nest.loops[static_cast<std::size_t>(rank - 1)];
    for (std::int64_t k = 0; k < loop.extent; ++k) {
      convert_slowly(nest, rank - 1, source + k * loop.source_stride,
                     target + k * loop.target_stride);
    }
    return;
  }
  const std::int64_t count = nest.element_bytes / nest.conversion.target_bytes();
  for (std::int64_t k = 0; k < count; ++k) {
    host::convert_run(nest.conversion, source + k * nest.conversion.source_bytes(),
                      target + k * nest.conversion.target_bytes(), 1, false);
  }
}

/// A nest whose points are distinct on both sides, and what its sides need.
struct ConvertingNest {
  LoopNest nest;
  std::int64_t source_bytes = 0;
  std::int64_t target_bytes = 0;
};

/// Returns the strides of loops that are nested in a random order, with random gaps.
inline std::vector<std::int64_t> random_strides(Random& random,
                                                const std::vector<std::int64_t>& extents,
                                                std::int64_t element_bytes, std::int64_t& total) {
  std::vector<std::size_t> order(extents.size());
  for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
  for (std::size_t k = order.size(); k > 1; --k) {
    std::swap(order[k - 1],
              order[static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(k) - 1))]);
  }
  std::vector<std::int64_t> strides(extents.size());
  std::int64_t step = element_bytes;
  for (const std::size_t k : order) {
    if (random.chance(0.3)) step += random.between(1, 9);
    strides[k] = step;
    step *= extents[k];
  }
  total = step + element_bytes;
  return strides;
}

inline ConvertingNest random_converting_nest(Random& random, std::int64_t numbers_most) {
  ConvertingNest made;
  made.nest.conversion = random_conversion(random);
  made.nest.rank = static_cast<int>(random.between(0, 4));
  const std::int64_t run = random.chance(0.5) ? 1 : random.between(1, 200);
  made.nest.element_bytes = run * made.nest.conversion.target_bytes();
  std::vector<std::int64_t> extents;
  std::int64_t numbers = run;
  for (int k = 0; k < made.nest.rank; ++k) {
    extents.push_back(random.between(1, random.chance(0.3) ? 90 : 7));
    if (numbers * extents.back() > numbers_most) extents.back() = 1;
    numbers *= extents.back();
  }
  const auto from =
      random_strides(random, extents, made.nest.source_element_bytes(), made.source_bytes);
  const auto to = random_strides(random, extents, made.nest.element_bytes, made.target_bytes);
  for (std::size_t k = 0; k < extents.size(); ++k) {
    made.nest.loops[k] = {extents[k], from[k], to[k]};
    if (random.chance(0.2)) {  // walked from the other end
      made.nest.source_offset += (extents[k] - 1) * from[k];
      made.nest.loops[k].source_stride = -from[k];
    }
  }
  return made;
}

}  // namespace tranship::test
