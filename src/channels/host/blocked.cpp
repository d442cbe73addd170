#include "channels/host/blocked.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "channels/host/loops.hpp"
#include "channels/host/prefetch.hpp"

namespace tranship::host {
namespace {

/// Bytes of payload in a block.
constexpr std::int64_t block_bytes_max = 128 << 10;

/// Length below which runs are not streamed, since their ends share lines with other runs.
constexpr std::int64_t streamed_row_bytes_min = 128;

/// The blocks of a shape: each has these extents, except at the upper ends.
struct Blocks {
  std::int64_t extents[Shape::rank_max];
};

/// One side of a block that grows: its axes, the nearest in memory first, and the one that grows.
struct BlockSide {
  int order[Shape::rank_max];
  int at = 0;
  std::int64_t strides[Shape::rank_max];  ///< of the axes in their order, either way
  std::int64_t whole_bytes;  ///< Bytes that the block spans along the axes before that one.

  BlockSide(const Shape& shape, bool is_target) : whole_bytes(shape.element_bytes) {
    const auto stride = [&](int k) {
      const Axis& axis = shape.axes[k];
      return is_target ? axis.target_stride : std::abs(axis.source_stride);
    };
    for (int k = 0; k < shape.rank; ++k) order[k] = k;
    if (!is_target) {
      std::sort(order, order + shape.rank, [&](int a, int b) { return stride(a) < stride(b); });
    }
    for (int k = 0; k < shape.rank; ++k) strides[k] = stride(order[k]);
  }

  /// Moves to the first axis that the block does not cover; returns false if there is none.
  bool can_grow(const Shape& shape, const Blocks& blocks) {
    for (; at < shape.rank; ++at) {
      const std::int64_t extent = shape.axes[order[at]].extent;
      if (blocks.extents[order[at]] != extent) return true;
      if (is_near()) whole_bytes += (extent - 1) * strides[at];
    }
    return false;
  }

  /// Returns whether the axis goes on, but for gaps shorter than a cache line, where the axes
  /// before it end.
  bool is_near() const { return strides[at] < whole_bytes + line_bytes; }

  /// Returns the bytes that a block spans in one piece on this side.
  std::int64_t span(const Blocks& blocks) const {
    return whole_bytes + (blocks.extents[order[at]] - 1) * strides[at];
  }
};

std::int64_t payload(const Shape& shape, const Blocks& blocks) {
  std::int64_t total = shape.element_bytes;
  for (int k = 0; k < shape.rank; ++k) total *= blocks.extents[k];
  return total;
}

/// Makes the blocks along an axis equal, up to the elements of a cache line.
std::int64_t even_extent(std::int64_t extent, std::int64_t block, std::int64_t element_bytes) {
  const std::int64_t count = (extent + block - 1) / block;
  const std::int64_t unit = std::max<std::int64_t>(1, line_bytes / element_bytes);
  const std::int64_t even = (extent + count - 1) / count;
  return std::min(block, (even + unit - 1) / unit * unit);
}

/// Grows the shorter span, the source's or the target's, until the block is full. A side whose
/// next axis lies apart grows only when the other one cannot: it saves no cache lines.
Blocks choose_blocks(const Shape& shape) {
  Blocks blocks;
  for (int k = 0; k < shape.rank; ++k) blocks.extents[k] = 1;
  BlockSide target(shape, true);
  BlockSide source(shape, false);
  while (2 * payload(shape, blocks) <= block_bytes_max) {
    if (!target.can_grow(shape, blocks) || !source.can_grow(shape, blocks)) break;
    bool target_grows = target.span(blocks) <= source.span(blocks);
    if (target.is_near() != source.is_near()) target_grows = target.is_near();
    const BlockSide& side = target_grows ? target : source;
    const int axis = side.order[side.at];
    blocks.extents[axis] = std::min(2 * blocks.extents[axis], shape.axes[axis].extent);
  }
  for (int k = 0; k < shape.rank; ++k) {
    blocks.extents[k] = even_extent(shape.axes[k].extent, blocks.extents[k], shape.element_bytes);
  }
  return blocks;
}

/// Returns the extent of the block at `index` along an axis: long ones are whole lists.
std::int64_t extent_at(const Axis& axis, std::int64_t block, std::int64_t index) {
  const std::int64_t extent = std::min(block, axis.extent - index);
  return extent > list_max ? extent / list_max * list_max : extent;
}

/// Returns the block whose first point is `index`.
Shape block_at(const Shape& shape, const Blocks& blocks, const std::int64_t* index) {
  Shape block;
  block.element_bytes = shape.element_bytes;
  block.rank = shape.rank;
  block.source = shape.source;
  block.target = shape.target;
  block.pieces = shape.pieces;
  block.dense = shape.dense;
  for (int k = 0; k < shape.rank; ++k) {
    const Axis& axis = shape.axes[k];
    block.axes[k] = axis;
    block.axes[k].extent = extent_at(axis, blocks.extents[k], index[k]);
    block.source += index[k] * axis.source_stride;
    block.target += index[k] * axis.target_stride;
  }
  return block;
}

/// Advances `index` to the next block in the target's order; returns false at the end.
bool next_index(const Shape& shape, const Blocks& blocks, std::int64_t* index) {
  for (int k = 0; k < shape.rank; ++k) {
    index[k] += extent_at(shape.axes[k], blocks.extents[k], index[k]);
    if (index[k] < shape.axes[k].extent) return true;
    index[k] = 0;
  }
  return false;
}

/// The longest contiguous runs of a shape's target.
struct Runs {
  int chain = 0;  ///< number of axes that form one run
  std::int64_t bytes;
};

Runs runs_of(const Shape& shape) {
  Runs runs{.bytes = shape.element_bytes};
  while (runs.chain < shape.rank && shape.axes[runs.chain].target_stride == runs.bytes) {
    runs.bytes *= shape.axes[runs.chain++].extent;
  }
  return runs;
}

/// Returns whether the target's runs map to so few sets of the L1 and L2 caches that their lines do
/// not last until they are full: then even a copy within the caches goes through the buffer.
bool is_crowded(const Shape& block) {
  constexpr std::int64_t crowded_pitch_bytes = 1024;
  for (int k = 0; k < block.rank; ++k) {
    const Axis& axis = block.axes[k];
    if (axis.extent > 8 && axis.target_stride % crowded_pitch_bytes == 0) return true;
  }
  return false;
}

/// Returns the distance of runs in a buffer: whole lines, with one line between runs.
std::int64_t padded_pitch(std::int64_t run_bytes) {
  return (run_bytes + 2 * line_bytes - 1) / line_bytes * line_bytes;
}

/// Prefetches the lines at the ends of a run some rows ahead: other runs share them, so that they
/// are written through the cache.
void fetch_ends(const std::byte* run, const Runs& runs, std::int64_t stride) {
  constexpr std::int64_t rows_ahead = 4;
  const std::byte* ahead = run + rows_ahead * stride;
  const auto begin = reinterpret_cast<std::uintptr_t>(ahead);
  const auto end = begin + static_cast<std::uintptr_t>(runs.bytes);
  if (begin % line_bytes != 0) __builtin_prefetch(ahead, 1, 3);
  if (end % line_bytes != 0) __builtin_prefetch(ahead + runs.bytes - 1, 1, 3);
}

}  // namespace

void stream_run(const std::byte* source, std::byte* target, std::int64_t bytes, const Kernels& set,
                Prefetcher& next) {
  constexpr std::int64_t piece_bytes = 512;
  const auto past = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(target) %
                                              static_cast<std::uintptr_t>(line_bytes));
  std::int64_t at = 0;
  std::int64_t piece = std::min(bytes, piece_bytes - past);
  while (at < bytes) {
    next.keep_pace(piece);
    set.stream(source + at, target + at, piece);
    at += piece;
    piece = std::min(bytes - at, piece_bytes);
  }
}

bool fits_stage(const Shape& block) {
  if (!block.dense) return false;
  const Runs runs = runs_of(block);
  return runs.bytes >= streamed_row_bytes_min &&
         block.bytes() / runs.bytes * padded_pitch(runs.bytes) <= stage_bytes_max;
}

void copy_staged(const Shape& block, const Kernels& set, bool cold, std::byte* stage,
                 BoxCopier& boxes, Prefetcher& next) {
  Shape staged = block;
  staged.target = stage;
  const Runs runs = runs_of(block);
  const std::int64_t pitch = padded_pitch(runs.bytes);
  std::int64_t rows = 1;
  for (int k = runs.chain; k < block.rank; ++k) {
    staged.axes[k].target_stride = pitch * rows;
    rows *= block.axes[k].extent;
  }
  copy_direct(staged, boxes, next);
  next.spread(block.bytes());
  std::int64_t index[Shape::rank_max] = {};
  std::byte* target = block.target;
  for (std::int64_t row = 0; row < rows; ++row) {
    if (cold) {
      if (runs.chain < block.rank) fetch_ends(target, runs, block.axes[runs.chain].target_stride);
      stream_run(stage + row * pitch, target, runs.bytes, set, next);
    } else {
      std::memcpy(target, stage + row * pitch, static_cast<std::size_t>(runs.bytes));
    }
    for (int k = runs.chain; k < block.rank; ++k) {
      const Axis& axis = block.axes[k];
      target += axis.target_stride;
      if (++index[k] < axis.extent) break;
      index[k] = 0;
      target -= axis.target_stride * axis.extent;
    }
  }
}

void copy_direct(const Shape& shape, BoxCopier& boxes, Prefetcher& next) {
  if (suits_loops(shape)) return copy_loops(shape, next);
  Blocks blocks;
  bool whole = true;
  for (int k = 0; k < shape.rank; ++k) {
    blocks.extents[k] = shape.axes[k].extent;
    whole = whole && extent_at(shape.axes[k], blocks.extents[k], 0) == blocks.extents[k];
  }
  if (whole) return boxes.copy(shape, next);
  std::int64_t index[Shape::rank_max] = {};
  do {
    boxes.copy(block_at(shape, blocks, index), next);
  } while (next_index(shape, blocks, index));
}

void copy_blocked(const Shape& shape, const Kernels& set, bool cold) {
  const Blocks blocks = choose_blocks(shape);
  BoxCopier boxes(set, source_range(shape), true);
  alignas(line_bytes) std::byte stage[stage_bytes_max];
  std::int64_t index[Shape::rank_max] = {};
  Shape block = block_at(shape, blocks, index);
  const bool staged = (cold || is_crowded(block)) && fits_stage(block);
  if (cold) Prefetcher(block, 1).read_all();
  while (true) {
    const bool more = next_index(shape, blocks, index);
    Prefetcher prefetcher;
    Shape next;
    if (more) {
      next = block_at(shape, blocks, index);
      if (cold) prefetcher = Prefetcher(next, (staged ? 2 : 1) * block.bytes());
    }
    if (staged) {
      copy_staged(block, set, cold, stage, boxes, prefetcher);
    } else {
      copy_direct(block, boxes, prefetcher);
    }
    if (!more) return;
    block = next;
  }
}

}  // namespace tranship::host
