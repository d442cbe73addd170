#include "channels/host/shape.hpp"

#include <algorithm>

namespace tranship::host {
namespace {

/// Inserts `axis` so that target strides ascend. Nests arrive sorted, so this rarely moves any.
void insert(Shape& shape, const Axis& axis) {
  int at = shape.rank++;
  for (; at > 0 && shape.axes[at - 1].target_stride > axis.target_stride; --at) {
    shape.axes[at] = shape.axes[at - 1];
  }
  shape.axes[at] = axis;
}

void join(Shape& shape) {
  int joined = 0;
  for (int k = 0; k < shape.rank; ++k) {
    const Axis axis = shape.axes[k];
    if (joined == 0) {
      if (axis.source_stride == shape.element_bytes && axis.target_stride == shape.element_bytes) {
        shape.element_bytes *= axis.extent;
        continue;
      }
    } else {
      Axis& inner = shape.axes[joined - 1];
      if (axis.source_stride == inner.source_stride * inner.extent &&
          axis.target_stride == inner.target_stride * inner.extent) {
        inner.extent *= axis.extent;
        continue;
      }
    }
    shape.axes[joined++] = axis;
  }
  shape.rank = joined;
}

}  // namespace

MemoryRange source_range(const Shape& shape) {
  MemoryRange range{shape.source, shape.source + (shape.pieces.empty() ? shape.element_bytes : 0)};
  if (!shape.pieces.empty()) {
    const ElementPiece& first = shape.pieces[0];
    range = {shape.source + first.source, shape.source + first.source + first.bytes};
  }
  for (const ElementPiece& piece : shape.pieces) {
    range.low = std::min(range.low, shape.source + piece.source);
    range.high = std::max(range.high, shape.source + piece.source + piece.bytes);
  }
  for (int k = 0; k < shape.rank; ++k) {
    const std::int64_t reach = (shape.axes[k].extent - 1) * shape.axes[k].source_stride;
    (reach < 0 ? range.low : range.high) += reach;
  }
  return range;
}

bool normalise(const LoopNest& nest, const std::byte* source, std::byte* target, Shape& shape) {
  shape.element_bytes = nest.element_bytes;
  shape.source = source + nest.source_offset;
  shape.target = target + nest.target_offset;
  shape.rank = 0;
  shape.pieces = {};
  shape.dense = true;
  for (int k = 0; k < nest.rank; ++k) {
    const Loop& loop = nest.loops[static_cast<std::size_t>(k)];
    if (loop.extent <= 0) return false;
    if (loop.extent == 1) continue;
    if (loop.target_stride >= 0) {
      insert(shape, {loop.extent, loop.source_stride, loop.target_stride});
    } else {  // walk the axis from its other end
      shape.source += (loop.extent - 1) * loop.source_stride;
      shape.target += (loop.extent - 1) * loop.target_stride;
      insert(shape, {loop.extent, -loop.source_stride, -loop.target_stride});
    }
  }
  join(shape);
  return shape.element_bytes > 0;
}

}  // namespace tranship::host
