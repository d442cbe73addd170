#include "channels/host/loops.hpp"

#include <algorithm>
#include <cstdlib>

#include "channels/host/moves.hpp"

namespace tranship::host {
namespace {

/// Shorter loops cost more than lists of points.
constexpr std::int64_t inner_extent_least = 8;
/// Bytes that are copied between two looks at what to prefetch.
constexpr std::int64_t pace_bytes = 512;

}  // namespace

bool suits_loops(const Shape& shape) {
  if (!shape.pieces.empty() || shape.rank == 0) return false;
  if (shape.rank > 1 && shape.axes[0].extent < inner_extent_least) return false;
  std::int64_t last = shape.element_bytes;
  for (int k = 0; k < shape.rank; ++k) {
    const std::int64_t stride = std::abs(shape.axes[k].source_stride);
    if (stride == 0) continue;  // what is read again is in the caches
    if (stride < last) return false;
    last = stride;
  }
  return true;
}

void copy_loops(const Shape& shape, Prefetcher& next) {
  const LoopKernel kernel = loop_kernel(shape.element_bytes);
  const Axis& inner = shape.axes[0];
  const std::int64_t part =
      next.idle() ? inner.extent : std::max<std::int64_t>(pace_bytes / shape.element_bytes, 4);
  std::int64_t index[Shape::rank_max] = {};
  const std::byte* source = shape.source;
  std::byte* target = shape.target;
  do {
    for (std::int64_t at = 0; at < inner.extent; at += part) {
      const std::int64_t count = std::min(part, inner.extent - at);
      next.keep_pace(count * shape.element_bytes);
      kernel({shape.element_bytes, count, inner.source_stride, inner.target_stride},
             source + at * inner.source_stride, target + at * inner.target_stride);
    }
  } while (next_turn(shape, 1, index, source, target));
}

}  // namespace tranship::host
