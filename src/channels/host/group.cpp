#include "channels/host/group.hpp"

#include <algorithm>
#include <cstdlib>

#include "channels/host/blocked.hpp"
#include "channels/host/dispatch.hpp"
#include "channels/host/prefetch.hpp"

namespace tranship::host {
namespace {

/// Payload of one block of a group.
constexpr std::int64_t group_bytes_max = 64 << 10;

/// An axis that all shapes of a group have, and the extent of a block along it.
struct CommonAxis {
  std::int64_t extent;
  std::int64_t reach;             ///< the longer of the first shape's strides
  int axis_of[group_shapes_max];  ///< which axis of each shape it is
  std::int64_t step;
};

struct Group {
  std::span<const Shape> shapes;
  CommonAxis axes[Shape::rank_max];  ///< the farthest reaching first
  int rank = 0;
};

/// Returns whether two elements lie within one stride of a loop.
bool near(const std::byte* a, const std::byte* b, std::int64_t stride) {
  const auto from = reinterpret_cast<std::intptr_t>(a);
  const auto to = reinterpret_cast<std::intptr_t>(b);
  return std::abs(from - to) < std::abs(stride);
}

bool same_axis(const Shape& a, const Axis& axis_a, const Shape& b, const Axis& axis_b) {
  if (axis_a.extent != axis_b.extent) return false;
  return (axis_a.source_stride == axis_b.source_stride &&
          near(a.source, b.source, axis_a.source_stride)) ||
         (axis_a.target_stride == axis_b.target_stride &&
          near(a.target, b.target, axis_a.target_stride));
}

/// Returns the axis of `other` that is the first shape's `axis` and not among `taken` (a bit for
/// each axis), or -1.
int find_axis(const Shape& first, const Axis& axis, const Shape& other, unsigned taken) {
  for (int k = 0; k < other.rank; ++k) {
    if ((taken >> k & 1u) == 0 && same_axis(first, axis, other, other.axes[k])) return k;
  }
  return -1;
}

Group make_group(std::span<const Shape> shapes) {
  Group group;
  group.shapes = shapes;
  const Shape& first = shapes[0];
  unsigned taken[group_shapes_max] = {};
  for (int k = 0; k < first.rank; ++k) {
    const Axis& axis = first.axes[k];
    CommonAxis common;
    common.extent = axis.extent;
    common.reach = std::max(std::abs(axis.source_stride), axis.target_stride);
    bool everywhere = true;
    for (std::size_t s = 0; s < shapes.size() && everywhere; ++s) {
      common.axis_of[s] = s == 0 ? k : find_axis(first, axis, shapes[s], taken[s]);
      everywhere = common.axis_of[s] >= 0;
    }
    if (!everywhere) continue;
    for (std::size_t s = 0; s < shapes.size(); ++s) taken[s] |= 1u << common.axis_of[s];
    int at = group.rank++;
    for (; at > 0 && group.axes[at - 1].reach < common.reach; --at) {
      group.axes[at] = group.axes[at - 1];
    }
    group.axes[at] = common;
  }
  return group;
}

/// Chooses the extents of a block: one index of the axes with long strides, all of the others.
void choose_steps(Group& group) {
  std::int64_t bytes = 0;
  for (const Shape& shape : group.shapes) bytes += shape.bytes();
  for (int k = 0; k < group.rank; ++k) {
    CommonAxis& axis = group.axes[k];
    const std::int64_t one = bytes / axis.extent;
    axis.step =
        std::clamp<std::int64_t>(group_bytes_max / std::max<std::int64_t>(one, 1), 1, axis.extent);
    if (axis.step > line_bytes) axis.step -= axis.step % line_bytes;
    bytes = one * axis.step;
  }
}

/// Returns the part of shape `s` that belongs to the block at `index`.
Shape part_of(const Group& group, std::size_t s, const std::int64_t* index) {
  Shape part = group.shapes[s];
  for (int k = 0; k < group.rank; ++k) {
    const CommonAxis& common = group.axes[k];
    Axis& axis = part.axes[common.axis_of[s]];
    part.source += index[k] * axis.source_stride;
    part.target += index[k] * axis.target_stride;
    axis.extent = std::min(common.step, common.extent - index[k]);
  }
  return part;
}

bool next_index(const Group& group, std::int64_t* index) {
  for (int k = group.rank - 1; k >= 0; --k) {
    index[k] += group.axes[k].step;
    if (index[k] < group.axes[k].extent) return true;
    index[k] = 0;
  }
  return false;
}

/// Returns the bytes from the first to the last that a part writes.
struct Extent {
  std::byte* low;
  std::byte* high;
};

Extent target_extent(const Shape& part) {
  std::byte* high = part.target + part.element_bytes;
  for (int k = 0; k < part.rank; ++k) {
    high += (part.axes[k].extent - 1) * part.axes[k].target_stride;
  }
  return {part.target, high};
}

/// Prefetches the source lines of a block, in as many parts as the group has shapes. Fields of one
/// record are prefetched together, other runs separately.
struct Ahead {
  Prefetcher lines[group_shapes_max];
  bool shared = false;  ///< all lines are in the first part

  Prefetcher& of(std::size_t s) { return lines[shared ? 0 : s]; }
};

void look_ahead(const Group& group, const std::int64_t* index, Ahead& ahead) {
  Shape whole = part_of(group, 0, index);
  const Axis inner = whole.axes[group.axes[group.rank - 1].axis_of[0]];
  const std::byte* first = whole.source;
  const std::byte* high = whole.source + whole.element_bytes;
  ahead.shared = true;
  std::int64_t bytes = 0;
  for (std::size_t s = 0; s < group.shapes.size(); ++s) {
    const Shape part = part_of(group, s, index);
    ahead.shared = ahead.shared && near(first, part.source, inner.source_stride);
    ahead.lines[s] = Prefetcher(part, 2 * part.bytes());
    bytes += part.bytes();
    whole.source = std::min(whole.source, part.source);
    high = std::max(high, part.source + part.element_bytes);
  }
  if (!ahead.shared) return;
  whole.element_bytes = high - whole.source;
  ahead.lines[0] = Prefetcher(whole, 2 * bytes);
}

/// Copies one block. If it fills a range of the target, that range is gathered in `stage` first.
void copy_block(const Group& group, const std::int64_t* index, const Kernels& set, bool cold,
                std::byte* stage, BoxCopier& boxes, Ahead& ahead) {
  Shape parts[group_shapes_max];
  std::int64_t bytes = 0;
  Extent extent{nullptr, nullptr};
  for (std::size_t s = 0; s < group.shapes.size(); ++s) {
    parts[s] = part_of(group, s, index);
    bytes += parts[s].bytes();
    const Extent part = target_extent(parts[s]);
    extent.low = s == 0 ? part.low : std::min(extent.low, part.low);
    extent.high = s == 0 ? part.high : std::max(extent.high, part.high);
  }
  const bool filled = cold && extent.high - extent.low == bytes && bytes <= stage_bytes_max;
  for (std::size_t s = 0; s < group.shapes.size(); ++s) {
    if (filled) {
      parts[s].target = stage + (parts[s].target - extent.low);
      copy_direct(parts[s], boxes, ahead.of(s));
    } else if (cold && fits_stage(parts[s])) {
      copy_staged(parts[s], set, cold, stage, boxes, ahead.of(s));
    } else {
      copy_direct(parts[s], boxes, ahead.of(s));
    }
  }
  if (!filled) return;
  const auto shapes = static_cast<std::int64_t>(group.shapes.size());
  const std::int64_t piece = (bytes / shapes + line_bytes - 1) / line_bytes * line_bytes;
  for (std::int64_t s = 0; s * piece < bytes; ++s) {
    stream_run(stage + s * piece, extent.low + s * piece, std::min(piece, bytes - s * piece), set,
               ahead.of(static_cast<std::size_t>(s)));
  }
}

/// Copies a group through a buffer. A function of its own, so that only it has the buffer on its
/// stack.
[[gnu::noinline]] void copy_blocks(const Group& group, const Kernels& set, bool cold) {
  alignas(line_bytes) std::byte stage[stage_bytes_max];
  MemoryRange range = source_range(group.shapes[0]);
  for (const Shape& shape : group.shapes) {
    const MemoryRange other = source_range(shape);
    range = {std::min(range.low, other.low), std::max(range.high, other.high)};
  }
  BoxCopier boxes(set, range, false);
  std::int64_t index[Shape::rank_max] = {};
  std::int64_t next[Shape::rank_max] = {};
  bool more = true;
  while (more) {
    Ahead ahead;
    more = next_index(group, next);
    if (more && cold) look_ahead(group, next, ahead);
    copy_block(group, index, set, cold, stage, boxes, ahead);
    std::copy(next, next + group.rank, index);
  }
}

}  // namespace

bool same_records(const Shape& first, const Shape& other) {
  for (int k = 0; k < first.rank; ++k) {
    if (find_axis(first, first.axes[k], other, 0) >= 0) return true;
  }
  return false;
}

void copy_group(std::span<const Shape> shapes, const Kernels& set, bool cold) {
  Group group = make_group(shapes);
  if (shapes.size() > 1 && group.rank > 0) {
    choose_steps(group);
    copy_blocks(group, set, cold);
  } else {
    for (const Shape& shape : shapes) copy_shape(shape, set, cold);
  }
}

}  // namespace tranship::host
