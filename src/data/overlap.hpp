// Checks whether two boxes of arrays share bytes.
#pragma once

#include <cstdint>

#include "data/mapping.hpp"

namespace tranship {

/// Returns whether the bytes of two boxes intersect, when the target's base lies `distance` bytes
/// after the source's. The answer is exact up to some million separate runs; boxes with more of
/// them count as intersecting if their ranges of bytes do.
bool overlaps(const View& source, const View& target, std::int64_t distance);

}  // namespace tranship
