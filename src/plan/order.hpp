// The order of an array's elements in memory, and the contiguous runs that a tile has in it: the
// PREFIX of Isometry 4.2, for whole arrays, sub-boxes and strided views.
#pragma once

#include <array>
#include <cstdint>

#include "data/mapping.hpp"

namespace tranship {

/// One step of an order: a block of a dimension, the rest of it, or the field space.
struct Step {
  int dimension = -1;               ///< -1: the fields
  std::int64_t extent = 1;          ///< how many values the step takes in the whole array
  bool adjoins = true;              ///< it continues where the steps before it end, without a gap
  std::int64_t distance_bytes = 0;  ///< between two of its values, either way; 0: not known
};

/// A value. A plan makes one from each mapping and then computes with it alone.
struct Order {
  static constexpr int steps_max = dimensions_max * levels_max + 1;

  /// Returns the order of a mapping's elements.
  static Order of(const Mapping& mapping);

  int rank = 0;
  int count = 0;
  std::array<Step, steps_max> steps{};
  std::int64_t point_bytes = 0;
  std::int64_t field_bytes = 0;  ///< mean over the fields
  Point blocks{};                ///< by dimension: indices in its largest block; 1: not blocked

  /// Returns the contiguous bytes of a tile of these extents.
  std::int64_t run_bytes(const Point& tile) const;

  /// Enlarges `tile` (within `extents`) to the smallest box with runs of at least `bytes`. Returns
  /// false if no box has such runs; then `tile` has the longest possible ones.
  bool enlarge(std::int64_t bytes, const Point& extents, Point& tile) const;

  /// Enlarges `tile` (within `extents`) until it spans `bytes` in one piece, counting gaps shorter
  /// than a cache line, which are read along. Returns false if no box spans so much.
  bool enlarge_span(std::int64_t bytes, const Point& extents, Point& tile) const;

  /// Enlarges `tile` (within `extents`) so that whatever lies within `bytes` of its elements
  /// belongs to it, across gaps and backwards as well: then no cache line of that size is read for
  /// two tiles.
  void enlarge_to_lines(std::int64_t bytes, const Point& extents, Point& tile) const;

  /// Returns the bytes of a dense slot for such a tile in this order, with the padding of blocks.
  std::int64_t slot_bytes(const Point& tile) const;
};

/// Returns the contiguous bytes that two orders have in common in a dense tile of these extents.
/// same_fields: Whether both have the same fields in the same sequence.
std::int64_t common_bytes(const Order& a, const Order& b, const Point& tile, bool same_fields);

/// Returns the number of points of a tile.
inline std::int64_t points_of(const Point& tile, int rank) {
  std::int64_t product = 1;
  for (std::size_t k = 0; k < static_cast<std::size_t>(rank); ++k) product *= tile[k];
  return product;
}

}  // namespace tranship
