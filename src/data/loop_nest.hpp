// The one intermediate form of every copy (design: I6; lists of places: indexed_nest.hpp). A loop
// nest moves `element_bytes` at each point of a grid; loops go fastest first in the target's memory
// order after coalescing. A nest may convert numbers on the way: then an element is a run of
// numbers that has other bytes in the source.
#pragma once

#include <array>
#include <cstdint>

#include "data/number_type.hpp"

namespace tranship {

/// One loop of a nest. Strides are in bytes and may be negative or (in the source) zero.
struct Loop {
  std::int64_t extent = 1;
  std::int64_t source_stride = 0;
  std::int64_t target_stride = 0;

  bool operator==(const Loop&) const = default;
};

struct LoopNest {
  static constexpr int loops_max = 24;

  std::int64_t element_bytes = 0;  ///< contiguous bytes written at each point
  std::int64_t source_offset = 0;  ///< bytes from the source's base to the first point
  std::int64_t target_offset = 0;  ///< bytes from the target's base to the first point
  int rank = 0;                    ///< how many of `loops` are in use
  std::array<Loop, loops_max> loops{};
  Conversion conversion{};  ///< of each number; by default they are moved as they are

  /// Contiguous bytes read at each point.
  std::int64_t source_element_bytes() const {
    if (!conversion) return element_bytes;
    return element_bytes / conversion.target_bytes() * conversion.source_bytes();
  }

  /// Bytes that the whole nest writes.
  std::int64_t bytes() const {
    std::int64_t total = element_bytes;
    for (int k = 0; k < rank; ++k) total *= loops[static_cast<std::size_t>(k)].extent;
    return total;
  }

  bool operator==(const LoopNest& other) const {
    if (element_bytes != other.element_bytes || source_offset != other.source_offset ||
        target_offset != other.target_offset || rank != other.rank ||
        conversion != other.conversion) {
      return false;
    }
    for (std::size_t k = 0; k < static_cast<std::size_t>(rank); ++k) {
      if (!(loops[k] == other.loops[k])) return false;
    }
    return true;
  }
};

}  // namespace tranship
