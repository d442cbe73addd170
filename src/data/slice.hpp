// Slices of an array: the ranges, steps and single indices of NumPy's basic indexing.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "data/mapping.hpp"

namespace tranship {

/// A slice of one dimension: `count` indices from `start` on, `step` apart. With `drop` it is one
/// index, and the result does not have the dimension.
struct DimensionSlice {
  std::int64_t start = 0;
  std::int64_t count = 0;
  std::int64_t step = 1;
  bool drop = false;
};

/// Returns the part of `view` that `slices` select: one slice for each dimension, its indices
/// counted from the view's first.
/// @error out_of_range if a slice reaches beyond the view; unsupported for steps in a blocked
/// dimension
Result<View> slice(const View& view, const std::vector<DimensionSlice>& slices);

}  // namespace tranship
