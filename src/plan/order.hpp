// The order in which an array's elements lie, and what it means for the contiguous runs of a tile:
// the PREFIX of Isometry 4.2, for whole arrays, sub-boxes and strided views alike.
#pragma once

#include <array>
#include <cstdint>

#include "data/mapping.hpp"

namespace tranship {

/// One step of an order: a block of a dimension, the rest of it, or the field space.
struct Step {
  int dimension = -1;       ///< -1: the fields
  std::int64_t extent = 1;  ///< how many values the step takes in the whole array
  bool adjoins = true;      ///< it goes on where the steps before it end, without a gap
};

/// A value, made from a mapping once a plan; everything after that is arithmetic on it.
struct Order {
  static constexpr int steps_max = dimensions_max * levels_max + 1;

  static Order of(const Mapping& mapping);

  int rank = 0;
  int count = 0;
  std::array<Step, steps_max> steps{};
  std::int64_t point_bytes = 0;
  std::int64_t field_bytes = 0;  ///< mean over the fields
  Point blocks{};                ///< by dimension: indices in its largest block; 1: not blocked

  /// Contiguous bytes of a tile of these extents.
  std::int64_t run_bytes(const Point& tile) const;

  /// Enlarges `tile` (within `extents`) to the least box whose runs are of `bytes` or more. False
  /// if no box has such runs; then it holds the longest that there are.
  bool enlarge(std::int64_t bytes, const Point& extents, Point& tile) const;

  /// Bytes of a dense slot that holds such a tile in this order, padding of its blocks included.
  std::int64_t slot_bytes(const Point& tile) const;
};

/// Contiguous bytes that two orders have in common in a dense tile of these extents.
/// @param same_fields whether both have the same fields in the same sequence
std::int64_t common_bytes(const Order& a, const Order& b, const Point& tile, bool same_fields);

/// Product of the extents in use.
inline std::int64_t points_of(const Point& tile, int rank) {
  std::int64_t product = 1;
  for (std::size_t k = 0; k < static_cast<std::size_t>(rank); ++k) product *= tile[k];
  return product;
}

}  // namespace tranship
