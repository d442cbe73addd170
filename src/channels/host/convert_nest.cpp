#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/check.hpp"
#include "channels/host/convert.hpp"
#include "channels/host/dispatch.hpp"
#include "channels/host/kernels.hpp"
#include "channels/host/shape.hpp"

namespace tranship::host {
namespace {

/// Numbers from which on a run is converted where it lies.
constexpr std::int64_t long_run_min = 128;
/// Most numbers of a box: both forms of it lie in the second cache.
constexpr std::int64_t box_numbers = 2048;
constexpr std::int64_t number_bytes_max = 16;

/// One loop more than a nest has: the numbers of an element.
constexpr int loops_max = LoopNest::loops_max + 1;
using Extents = std::array<std::int64_t, loops_max>;

/// A nest of single numbers.
struct Numbers {
  const std::byte* source;
  std::byte* target;
  Conversion conversion;
  int rank = 0;
  std::array<Loop, loops_max> loops;  ///< in the target's order
};

Numbers numbers_of(const LoopNest& nest, const std::byte* source, std::byte* target) {
  Numbers numbers{source + nest.source_offset, target + nest.target_offset, nest.conversion, 0, {}};
  const std::int64_t source_bytes = nest.conversion.source_bytes();
  const std::int64_t target_bytes = nest.conversion.target_bytes();
  const std::int64_t run = nest.element_bytes / target_bytes;
  if (run > 1) {
    numbers.loops[static_cast<std::size_t>(numbers.rank++)] = {run, source_bytes, target_bytes};
  }
  for (int k = 0; k < nest.rank; ++k) {
    const Loop& loop = nest.loops[static_cast<std::size_t>(k)];
    if (loop.extent > 1) numbers.loops[static_cast<std::size_t>(numbers.rank++)] = loop;
  }
  return numbers;
}

/// Returns the loop that is the fastest on one side of those that a box has not the whole of; -1 if
/// it has all.
int fastest_left(const Numbers& numbers, const Extents& box, bool in_source) {
  int fastest = -1;
  std::int64_t least = 0;
  for (int k = 0; k < numbers.rank; ++k) {
    const auto at = static_cast<std::size_t>(k);
    const Loop& loop = numbers.loops[at];
    if (box[at] == loop.extent) continue;
    const std::int64_t stride = std::abs(in_source ? loop.source_stride : loop.target_stride);
    if (fastest >= 0 && stride >= least) continue;
    fastest = k;
    least = stride;
  }
  return fastest;
}

/// Returns the extents of a box whose runs are about equally long on both sides.
Extents box_of(const Numbers& numbers) {
  Extents box;
  box.fill(1);
  std::int64_t count = 1;
  for (bool in_source = false;; in_source = !in_source) {
    const int k = fastest_left(numbers, box, in_source);
    if (k < 0) return box;
    std::int64_t& extent = box[static_cast<std::size_t>(k)];
    const std::int64_t others = count / extent;
    const std::int64_t wanted = std::min(
        {2 * extent, numbers.loops[static_cast<std::size_t>(k)].extent, box_numbers / others});
    if (wanted == extent) return box;
    extent = wanted;
    count = others * wanted;
  }
}

/// Copies the numbers of a box as they are; one side of it is dense, in the order of the loops.
void move_box(const Numbers& numbers, const Extents& box, bool gathers, std::int64_t bytes,
              const std::byte* source, std::byte* target) {
  LoopNest nest;
  nest.element_bytes = bytes;
  std::int64_t dense = bytes;
  for (int k = 0; k < numbers.rank; ++k) {
    const auto at = static_cast<std::size_t>(k);
    if (box[at] == 1) continue;
    const Loop& loop = numbers.loops[at];
    CHECK(nest.rank < LoopNest::loops_max, "a box has fewer loops than its nest and the numbers");
    nest.loops[static_cast<std::size_t>(nest.rank++)] =
        gathers ? Loop{box[at], loop.source_stride, dense}
                : Loop{box[at], dense, loop.target_stride};
    dense *= box[at];
  }
  Shape shape;
  if (normalise(nest, source, target, shape)) copy_shape(shape, kernels(), false);
}

/// Returns whether the numbers of a box follow each other on one side, in the order of the loops.
bool is_dense(const Numbers& numbers, const Extents& box, bool in_source) {
  std::int64_t dense =
      in_source ? numbers.conversion.source_bytes() : numbers.conversion.target_bytes();
  for (int k = 0; k < numbers.rank; ++k) {
    const auto at = static_cast<std::size_t>(k);
    if (box[at] == 1) continue;
    const Loop& loop = numbers.loops[at];
    if ((in_source ? loop.source_stride : loop.target_stride) != dense) return false;
    dense *= box[at];
  }
  return true;
}

void convert_box(const Numbers& numbers, const Extents& box, const std::byte* source,
                 std::byte* target, bool cold) {
  alignas(line_bytes) std::byte gathered[static_cast<std::size_t>(box_numbers * number_bytes_max)];
  alignas(line_bytes) std::byte converted[static_cast<std::size_t>(box_numbers * number_bytes_max)];
  std::int64_t count = 1;
  for (int k = 0; k < numbers.rank; ++k) count *= box[static_cast<std::size_t>(k)];
  if (!is_dense(numbers, box, true)) {
    move_box(numbers, box, true, numbers.conversion.source_bytes(), source, gathered);
    source = gathered;
  }
  if (is_dense(numbers, box, false)) {
    return convert_run(numbers.conversion, source, target, count, cold);
  }
  convert_run(numbers.conversion, source, converted, count, false);
  move_box(numbers, box, false, numbers.conversion.target_bytes(), converted, target);
}

/// Converts all boxes of these extents.
void convert_boxes(const Numbers& numbers, const Extents& box, bool cold) {
  Extents lower{};
  const std::byte* source = numbers.source;
  std::byte* target = numbers.target;
  while (true) {
    Extents here = box;
    for (int k = 0; k < numbers.rank; ++k) {
      const auto at = static_cast<std::size_t>(k);
      here[at] = std::min(box[at], numbers.loops[at].extent - lower[at]);
    }
    convert_box(numbers, here, source, target, cold);
    int k = 0;
    for (; k < numbers.rank; ++k) {
      const auto at = static_cast<std::size_t>(k);
      const Loop& loop = numbers.loops[at];
      source += here[at] * loop.source_stride;
      target += here[at] * loop.target_stride;
      lower[at] += here[at];
      if (lower[at] < loop.extent) break;
      source -= loop.extent * loop.source_stride;
      target -= loop.extent * loop.target_stride;
      lower[at] = 0;
    }
    if (k == numbers.rank) return;
  }
}

}  // namespace

void convert_nest(const LoopNest& nest, const std::byte* source, std::byte* target, bool cold) {
  if (nest.bytes() == 0) return;
  const Numbers numbers = numbers_of(nest, source, target);
  Extents box = box_of(numbers);
  // A long run needs no box: it is converted where it lies, as a whole.
  const bool is_run = nest.element_bytes >= long_run_min * nest.conversion.target_bytes();
  if (numbers.rank == 0 || is_run) {
    box.fill(1);
    box[0] = nest.element_bytes / nest.conversion.target_bytes();
  }
  convert_boxes(numbers, box, cold);
}

}  // namespace tranship::host
