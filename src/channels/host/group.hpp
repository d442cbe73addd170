// Copies nests that interleave on one side, such as the fields of an array of records.
#pragma once

#include <span>

#include "channels/host/kernels.hpp"
#include "channels/host/shape.hpp"

namespace tranship::host {

/// Largest number of shapes of a group; more of them are carried as several groups.
inline constexpr std::size_t group_shapes_max = 16;

/// Returns whether `other` walks the same records as `first`: an axis of both has the same extent
/// and, on one side, the same stride, and both elements lie within one stride.
bool same_records(const Shape& first, const Shape& other);

/// Copies shapes that walk the same records, in blocks that fit the L2 cache: all shapes over one
/// block, then over the next, so that the records cross the memory bus once. Where the shapes
/// together fill the target without a gap and the copy is `cold`, whole blocks of it are streamed.
/// The caller fences.
void copy_group(std::span<const Shape> shapes, const Kernels& set, bool cold);

}  // namespace tranship::host
