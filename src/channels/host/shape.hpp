// Loop nests in the form that kernels take: normalised, with addresses instead of offsets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "data/loop_nest.hpp"

namespace tranship::host {

/// Size of a cache line, in bytes.
constexpr std::int64_t line_bytes = 64;

/// One loop. Unlike `Loop` it is not initialised, so that an array of axes costs nothing.
struct Axis {
  std::int64_t extent;
  std::int64_t source_stride;
  std::int64_t target_stride;
};

/// One of several runs of bytes that an element consists of, such as some fields of a record.
struct ElementPiece {
  std::int64_t source;  ///< Offset from the element's address in the source.
  std::int64_t target;
  std::int64_t bytes;
};

/// The bytes from `low` to `high`.
struct MemoryRange {
  const std::byte* low;
  const std::byte* high;
};

/// A copy of one nest. After normalise(): no axis of extent 1, target strides positive and
/// ascending, and nothing left to join.
struct Shape {
  static constexpr int rank_max = LoopNest::loops_max;

  std::int64_t element_bytes;  ///< All bytes of the pieces, if there are some.
  const std::byte* source;
  std::byte* target;
  int rank;
  Axis axes[rank_max];
  std::span<const ElementPiece> pieces;  ///< Empty if the element is one run on both sides.
  bool dense = true;                     ///< Whether the pieces are one run in the target.

  /// Returns the bytes that the whole shape moves.
  std::int64_t bytes() const {
    std::int64_t total = element_bytes;
    for (int k = 0; k < rank; ++k) total *= axes[k].extent;
    return total;
  }
};

/// Moves both addresses to the next turn of the axes from `first` on, and counts it in `index`,
/// which begins as zeros. Returns false, with both at the beginning again, after the last one.
inline bool next_turn(const Shape& shape, int first, std::int64_t* index, const std::byte*& source,
                      std::byte*& target) {
  for (int k = first; k < shape.rank; ++k) {
    const Axis& axis = shape.axes[k];
    source += axis.source_stride;
    target += axis.target_stride;
    if (++index[k] < axis.extent) return true;
    index[k] = 0;
    source -= axis.source_stride * axis.extent;
    target -= axis.target_stride * axis.extent;
  }
  return false;
}

/// Returns the bytes of the source from the first to the last that a shape reads.
MemoryRange source_range(const Shape& shape);

/// Reads `nest` into `shape`: removes axes of extent 1, makes target strides positive, sorts
/// axes by target stride and joins those that continue each other. Returns false if the nest moves
/// nothing.
bool normalise(const LoopNest& nest, const std::byte* source, std::byte* target, Shape& shape);

}  // namespace tranship::host
