// Parts of an array, as NumPy writes them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "data/mapping.hpp"

namespace tranship {

/// What is kept of one dimension: `count` indices from `start`, `step` apart; or one index, and the
/// dimension goes.
struct Cut {
  std::int64_t start = 0;
  std::int64_t count = 0;
  std::int64_t step = 1;
  bool drop = false;
};

/// The part of `view` that `cuts` keep, one for each dimension, counted from the view's corner.
/// @error out_of_range if a cut leaves the view; unsupported for steps in a blocked dimension
Result<View> slice(const View& view, const std::vector<Cut>& cuts);

}  // namespace tranship
