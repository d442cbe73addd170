// Boxes of a variable's index space.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "data/mapping.hpp"

namespace tranship::staging {

/// Largest index, and its negative the smallest, so that differences of two indices have 63 bits.
constexpr std::int64_t index_most = (std::int64_t{1} << 62) - 1;

/// A half-open box in up to dimensions_max dimensions, in the user's order.
/// Indices may be negative. Beyond its rank every lower is 0 and every upper 1.
struct Box {
  int rank = 0;
  Point lower{};
  Point upper{};

  /// Makes a box.
  /// @error invalid_argument if there are too many dimensions, an upper bound is not above its
  /// lower
  ///        one, an index is beyond index_most, or the box has more points than 63 bits count
  static Result<Box> make(const std::vector<std::int64_t>& lower,
                          const std::vector<std::int64_t>& upper);
  /// Makes the bounds of a variable, which may hold any number of points: points() must not be
  /// called for them.
  static Result<Box> make_bounds(const std::vector<std::int64_t>& lower,
                                 const std::vector<std::int64_t>& upper);

  std::int64_t extent(int dimension) const {
    const auto k = static_cast<std::size_t>(dimension);
    return upper[k] - lower[k];
  }
  std::int64_t points() const;
  /// Returns the box as users write it: (0:64, 128:256).
  std::string text() const;

  bool operator==(const Box&) const = default;
};

/// Returns the points that two boxes of one rank share; nothing if they share none.
std::optional<Box> intersection(const Box& a, const Box& b);

/// Moves `cell` to the next one from `first` to `last`, both inclusive. Returns false, with `cell`
/// at `first` again, after the last one.
bool step(Point& cell, const Point& first, const Point& last, int rank);

/// Returns the smallest box that holds both boxes, which have one rank.
Box around(const Box& a, const Box& b);

/// Appends to `parts` the points of `box` outside `hole`, as disjoint boxes: at most two for each
/// dimension.
void subtract(const Box& box, const Box& hole, std::vector<Box>& parts);

}  // namespace tranship::staging
