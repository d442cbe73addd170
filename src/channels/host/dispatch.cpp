#include "channels/host/dispatch.hpp"

#include <cstring>

#include "channels/host/blocked.hpp"
#include "channels/host/fill.hpp"
#include "channels/host/loops.hpp"

namespace tranship::host {
namespace {

/// Size in bytes below which blocking costs more than it saves.
constexpr std::int64_t direct_bytes_max = 8 << 10;

/// Length from which a run is worth streaming by itself.
constexpr std::int64_t streamed_run_bytes_min = 512;

/// Length below which runs end before the hardware prefetcher detects them.
constexpr std::int64_t foreseen_run_bytes_min = 4 << 10;

void prefetch(const std::byte* run, std::int64_t bytes) {
  for (std::int64_t at = 0; at < bytes; at += line_bytes) __builtin_prefetch(run + at, 0, 2);
}

/// Copies long runs one by one.
void copy_runs(const Shape& shape, const Kernels& set, bool cold) {
  std::int64_t index[Shape::rank_max];
  for (int k = 0; k < shape.rank; ++k) index[k] = 0;
  const std::byte* source = shape.source;
  std::byte* target = shape.target;
  const bool unforeseen = cold && shape.rank > 0 && shape.element_bytes < foreseen_run_bytes_min;
  do {
    // Prefetches the next run; after the last one of an axis these lines are not used.
    if (unforeseen) prefetch(source + shape.axes[0].source_stride, shape.element_bytes);
    if (cold) {
      set.stream(source, target, shape.element_bytes);
    } else {
      std::memcpy(target, source, static_cast<std::size_t>(shape.element_bytes));
    }
  } while (next_turn(shape, 0, index, source, target));
}

}  // namespace

void copy_shape(const Shape& shape, const Kernels& set, bool cold) {
  if (shape.rank == 0 || shape.element_bytes >= streamed_run_bytes_min) {
    copy_runs(shape, set, cold && shape.element_bytes >= streamed_run_bytes_min);
  } else if (suits_fill(shape)) {
    copy_fill(shape, set, cold);
  } else if ((!cold || shape.axes[0].source_stride == 0) && suits_loops(shape)) {
    Prefetcher none;
    copy_loops(shape, none);
  } else if (shape.bytes() <= direct_bytes_max) {
    BoxCopier boxes(set, source_range(shape), false);
    Prefetcher none;
    copy_direct(shape, boxes, none);
  } else {
    copy_blocked(shape, set, cold);
  }
}

}  // namespace tranship::host
