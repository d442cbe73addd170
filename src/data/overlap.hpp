// Checks whether two boxes of arrays share bytes, and whether the elements of one do.
#pragma once

#include <cstdint>

#include "data/mapping.hpp"

namespace tranship {

/// Returns whether the bytes of two boxes intersect, when the target's base lies `distance` bytes
/// after the source's. The answer is exact, but for boxes of some million separate runs or more
/// whose strides have so little in common that it is not found in some thousand steps: those count
/// as intersecting if their ranges of bytes do.
bool overlaps(const View& source, const View& target, std::int64_t distance);

/// Returns whether two elements of the box share a byte. The answer is exact, but for boxes of a
/// hundred million elements or more whose strides have so little in common that it is not found in
/// some thousand steps: those count as sharing.
bool elements_share_bytes(const View& view);

}  // namespace tranship
