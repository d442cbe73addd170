#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "base/check.hpp"
#include "channels/host/blocked.hpp"
#include "channels/host/convert.hpp"
#include "channels/host/kernels.hpp"
#include "channels/host/shape.hpp"

namespace tranship::host {
namespace {

/// Numbers from which on a run is converted to where it belongs, without a copy between.
constexpr std::int64_t long_run_min = 128;
/// Most bytes of a box in the wider of both types: both forms of it lie in the second cache.
constexpr std::int64_t box_bytes_max = 64 << 10;
/// Length in bytes from which a shorter run is converted to where it belongs as well.
constexpr std::int64_t long_run_bytes_min = 512;
/// Both forms of a box, or one of which each long run is padded by less than two lines.
constexpr std::int64_t buffer_bytes = 2 * box_bytes_max;
static_assert(box_bytes_max / std::min(long_run_min, long_run_bytes_min) * 2 * line_bytes <=
              box_bytes_max);

/// One loop more than a nest has: the numbers of an element.
constexpr int loops_max = LoopNest::loops_max + 1;
using Extents = std::array<std::int64_t, loops_max>;

/// A nest of single numbers: target strides are positive and ascend, and no loop continues another
/// one on both sides.
struct Numbers {
  const std::byte* source;
  std::byte* target;
  Conversion conversion;
  int rank = 0;
  std::array<Loop, loops_max> loops;

  const Loop& loop(int k) const { return loops[static_cast<std::size_t>(k)]; }
  /// Returns the bytes of one number on a side.
  std::int64_t bytes(bool in_source) const {
    return in_source ? conversion.source_bytes() : conversion.target_bytes();
  }
};

std::int64_t stride_of(const Loop& loop, bool in_source) {
  return in_source ? loop.source_stride : loop.target_stride;
}

/// Adds a loop, which is walked so that it ascends in the target.
void add(Numbers& numbers, Loop loop) {
  if (loop.extent == 1) return;
  if (loop.target_stride < 0) {
    numbers.source += (loop.extent - 1) * loop.source_stride;
    numbers.target += (loop.extent - 1) * loop.target_stride;
    loop.source_stride = -loop.source_stride;
    loop.target_stride = -loop.target_stride;
  }
  numbers.loops[static_cast<std::size_t>(numbers.rank++)] = loop;
}

Numbers numbers_of(const LoopNest& nest, const std::byte* source, std::byte* target) {
  Numbers numbers{source + nest.source_offset, target + nest.target_offset, nest.conversion, 0, {}};
  add(numbers,
      {nest.element_bytes / numbers.bytes(false), numbers.bytes(true), numbers.bytes(false)});
  for (int k = 0; k < nest.rank; ++k) add(numbers, nest.loops[static_cast<std::size_t>(k)]);
  auto* const loops = numbers.loops.data();
  std::stable_sort(loops, loops + numbers.rank,
                   [](const Loop& a, const Loop& b) { return a.target_stride < b.target_stride; });
  int kept = 0;
  for (int k = 0; k < numbers.rank; ++k) {
    Loop& last = loops[std::max(kept - 1, 0)];
    const bool continues = kept > 0 && loops[k].source_stride == last.extent * last.source_stride &&
                           loops[k].target_stride == last.extent * last.target_stride;
    if (continues) {
      last.extent *= loops[k].extent;
    } else {
      loops[kept++] = loops[k];
    }
  }
  numbers.rank = kept;
  return numbers;
}

/// Returns the loop that is the fastest on one side of those that a box has not the whole of; -1 if
/// it has all.
int fastest_left(const Numbers& numbers, const Extents& box, bool in_source) {
  int fastest = -1;
  std::int64_t least = 0;
  for (int k = 0; k < numbers.rank; ++k) {
    if (box[static_cast<std::size_t>(k)] == numbers.loop(k).extent) continue;
    const std::int64_t stride = std::abs(stride_of(numbers.loop(k), in_source));
    if (fastest >= 0 && stride >= least) continue;
    fastest = k;
    least = stride;
  }
  return fastest;
}

/// Returns the extents of a box whose runs are about as long on both sides: in bytes if the
/// source's numbers are the wider ones, else in numbers, since long runs of the target are worth
/// more.
Extents box_of(const Numbers& numbers) {
  const std::int64_t numbers_max =
      box_bytes_max / std::max(numbers.bytes(true), numbers.bytes(false));
  Extents box;
  box.fill(1);
  std::int64_t count = 1;
  std::int64_t source_run_bytes = numbers.bytes(true);
  std::int64_t target_run_bytes = std::min(numbers.bytes(false), numbers.bytes(true));
  while (true) {
    const bool in_source = source_run_bytes < target_run_bytes;
    const int k = fastest_left(numbers, box, in_source);
    if (k < 0) return box;
    std::int64_t& extent = box[static_cast<std::size_t>(k)];
    const std::int64_t others = count / extent;
    const std::int64_t wanted =
        std::min({2 * extent, numbers.loop(k).extent, numbers_max / others});
    if (wanted == extent) return box;
    (in_source ? source_run_bytes : target_run_bytes) *= 2;
    extent = wanted;
    count = others * wanted;
  }
}

/// Returns how many loops of a box, from the first one on, are one run on a side.
int dense_loops(const Numbers& numbers, const Extents& box, bool in_source) {
  std::int64_t dense = numbers.bytes(in_source);
  for (int k = 0; k < numbers.rank; ++k) {
    const std::int64_t extent = box[static_cast<std::size_t>(k)];
    if (extent == 1) continue;
    if (stride_of(numbers.loop(k), in_source) != dense) return k;
    dense *= extent;
  }
  return numbers.rank;
}

bool is_long(std::int64_t run, std::int64_t number_bytes) {
  return run >= long_run_min || run * number_bytes >= long_run_bytes_min;
}

std::int64_t count_of(const Extents& box, int loops) {
  std::int64_t count = 1;
  for (int k = 0; k < loops; ++k) count *= box[static_cast<std::size_t>(k)];
  return count;
}

/// Moves both addresses to the next run of a box, whose first `loops` loops are one run each.
/// Returns false, with both at the beginning again, after the last one.
bool next_run(const Numbers& numbers, const Extents& box, int loops, Extents& turn,
              const std::byte*& source, std::byte*& target) {
  for (int k = loops; k < numbers.rank; ++k) {
    const auto at = static_cast<std::size_t>(k);
    const Loop& loop = numbers.loops[at];
    source += loop.source_stride;
    target += loop.target_stride;
    if (++turn[at] < box[at]) return true;
    turn[at] = 0;
    source -= box[at] * loop.source_stride;
    target -= box[at] * loop.target_stride;
  }
  return false;
}

/// Converts boxes of one nest, each by way of buffers in the second cache.
class BoxConverter {
 public:
  BoxConverter(const Numbers& numbers, const Extents& box, bool cold)
      : numbers_(numbers),
        cold_(cold),
        gathers_(dense_loops(numbers, box, true) < numbers.rank),
        loops_(dense_loops(numbers, box, false)),
        direct_(is_long(count_of(box, loops_), numbers.bytes(false))),
        gather_(kernels(), whole_source(), true),
        spread_(kernels(), {buffer_, buffer_ + sizeof buffer_}, true) {
    if (!direct_) loops_ = numbers.rank;
  }

  /// Reads the source of the first box into the cache.
  void begin(const Extents& box, const std::byte* source) {
    if (cold_ && gathers_) Prefetcher(gather_shape(box, source), 1).read_all();
  }

  /// Converts one box. next: Where the source of the box after it begins; null if it is the last.
  void convert(const Extents& box, const std::byte* source, std::byte* target,
               const Extents& next_box, const std::byte* next) {
    const std::int64_t count = count_of(box, numbers_.rank);
    Prefetcher prefetcher;
    if (gathers_) {
      const std::int64_t bytes = count * numbers_.bytes(true);
      if (cold_ && next != nullptr) prefetcher = {gather_shape(next_box, next), 2 * bytes};
      copy(gather_, gather_shape(box, source), prefetcher);
      prefetcher.spread(count * numbers_.bytes(false));
      source = buffer_;
    }
    if (direct_) return convert_runs(box, source, target, prefetcher);
    std::byte* const converted = buffer_ + box_bytes_max;
    convert_run(numbers_.conversion, source, converted, count, false);
    copy(spread_, shape(box, converted, target, false), prefetcher);
  }

 private:
  /// Returns the distance of runs in the buffer: whole lines, with one line between runs, so that
  /// they do not map to the same sets of the caches.
  std::int64_t pitch(const Extents& box) const {
    const std::int64_t run_bytes = count_of(box, loops_) * numbers_.bytes(true);
    if (loops_ == numbers_.rank) return run_bytes;
    return (run_bytes + 2 * line_bytes - 1) / line_bytes * line_bytes;
  }

  MemoryRange whole_source() const {
    Shape all{numbers_.bytes(true), numbers_.source, nullptr, 0, {}, {}};
    const std::byte* low = numbers_.source;
    const std::byte* high = numbers_.source + all.element_bytes;
    for (int k = 0; k < numbers_.rank; ++k) {
      const std::int64_t span = (numbers_.loop(k).extent - 1) * numbers_.loop(k).source_stride;
      (span < 0 ? low : high) += span;
    }
    return {low, high};
  }

  Shape gather_shape(const Extents& box, const std::byte* source) {
    return shape(box, source, buffer_, true);
  }

  /// Returns the copy of a box's numbers from its source to the buffer, or from there to its
  /// target.
  Shape shape(const Extents& box, const std::byte* source, std::byte* target, bool gathers) const {
    Shape shape{numbers_.bytes(gathers), source, target, 0, {}, {}};
    std::int64_t dense = shape.element_bytes;
    for (int k = 0; k < numbers_.rank; ++k) {
      if (gathers && k == loops_) dense = pitch(box);
      const std::int64_t extent = box[static_cast<std::size_t>(k)];
      if (extent == 1) continue;
      const Loop& loop = numbers_.loop(k);
      const Axis axis = gathers ? Axis{extent, loop.source_stride, dense}
                                : Axis{extent, dense, loop.target_stride};
      dense *= extent;
      if (shape.rank == 0 && axis.source_stride == shape.element_bytes &&
          axis.target_stride == shape.element_bytes) {
        shape.element_bytes *= extent;
        continue;
      }
      CHECK(shape.rank < Shape::rank_max, "a box has fewer loops than its nest and the numbers");
      shape.axes[shape.rank++] = axis;
    }
    return shape;
  }

  static void copy(BoxCopier& boxes, const Shape& shape, Prefetcher& next) {
    if (shape.rank == 0) {
      std::memcpy(shape.target, shape.source, static_cast<std::size_t>(shape.element_bytes));
    } else {
      copy_direct(shape, boxes, next);
    }
  }

  /// Converts the runs of a box to where they belong.
  void convert_runs(const Extents& box, const std::byte* source, std::byte* target,
                    Prefetcher& next) const {
    const std::int64_t run = count_of(box, loops_);
    const std::int64_t step = gathers_ ? pitch(box) : run * numbers_.bytes(true);
    Extents turn{};
    const std::byte* unused = source;
    for (const std::byte* from = source;; from += step) {
      next.keep_pace(run * numbers_.bytes(false));
      convert_run(numbers_.conversion, from, target, run, cold_);
      if (!next_run(numbers_, box, loops_, turn, unused, target)) return;
    }
  }

  const Numbers& numbers_;
  const bool cold_;
  const bool gathers_;
  int loops_;  ///< that are one run in the target, if runs are converted to there
  const bool direct_;
  BoxCopier gather_;
  BoxCopier spread_;
  alignas(line_bytes) std::byte buffer_[static_cast<std::size_t>(buffer_bytes)];
};

/// A box of a nest and where it begins.
struct Box {
  Extents lower{};
  Extents extents{};
  const std::byte* source;
  std::byte* target;
};

void cut(const Numbers& numbers, const Extents& most, Box& box) {
  for (int k = 0; k < numbers.rank; ++k) {
    const auto at = static_cast<std::size_t>(k);
    box.extents[at] = std::min(most[at], numbers.loops[at].extent - box.lower[at]);
  }
}

/// Moves to the next box; returns false after the last one.
bool next_box(const Numbers& numbers, const Extents& most, Box& box) {
  for (int k = 0; k < numbers.rank; ++k) {
    const auto at = static_cast<std::size_t>(k);
    const Loop& loop = numbers.loops[at];
    const std::int64_t step = box.extents[at];
    box.source += step * loop.source_stride;
    box.target += step * loop.target_stride;
    box.lower[at] += step;
    if (box.lower[at] < loop.extent) {
      cut(numbers, most, box);
      return true;
    }
    box.source -= loop.extent * loop.source_stride;
    box.target -= loop.extent * loop.target_stride;
    box.lower[at] = 0;
  }
  return false;
}

/// Converts all boxes of these extents.
void convert_boxes(const Numbers& numbers, const Extents& most, bool cold) {
  BoxConverter converter(numbers, most, cold);
  Box box{{}, {}, numbers.source, numbers.target};
  cut(numbers, most, box);
  converter.begin(box.extents, box.source);
  while (true) {
    Box next = box;
    const bool more = next_box(numbers, most, next);
    converter.convert(box.extents, box.source, box.target, next.extents,
                      more ? next.source : nullptr);
    if (!more) return;
    box = next;
  }
}

}  // namespace

void convert_nest(const LoopNest& nest, const std::byte* source, std::byte* target, bool cold) {
  if (nest.bytes() == 0) return;
  const Numbers numbers = numbers_of(nest, source, target);
  // Long runs need no box: they are converted where they lie.
  const bool has_run = numbers.rank > 0 && numbers.loop(0).source_stride == numbers.bytes(true) &&
                       numbers.loop(0).target_stride == numbers.bytes(false);
  const std::int64_t run = has_run ? numbers.loop(0).extent : 1;
  if (numbers.rank > (has_run ? 1 : 0) && run < long_run_min) {
    return convert_boxes(numbers, box_of(numbers), cold);
  }
  Extents all{};
  for (int k = 0; k < numbers.rank; ++k) {
    all[static_cast<std::size_t>(k)] = numbers.loop(k).extent;
  }
  Extents turn{};
  const std::byte* from = numbers.source;
  std::byte* to = numbers.target;
  do {
    convert_run(numbers.conversion, from, to, run, cold);
  } while (next_run(numbers, all, has_run ? 1 : 0, turn, from, to));
}

}  // namespace tranship::host
