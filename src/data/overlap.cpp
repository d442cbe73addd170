#include "data/overlap.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "data/lowering.hpp"

namespace tranship {
namespace {

struct ByteRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

constexpr std::size_t runs_max = std::size_t{1} << 22;

/// Returns the box as loop nests over its own bytes, with equal source and target sides.
std::vector<LoopNest> nests_of(const View& view) {
  std::vector<LoopNest> nests;
  const Corner corner{view.mapping.get(), view.lower};
  lower(corner, corner, view.extents, {}, nests);
  return nests;
}

ByteRange range_of(const std::vector<LoopNest>& nests) {
  ByteRange range{INT64_MAX, INT64_MIN};
  for (const LoopNest& nest : nests) {
    std::int64_t low = nest.source_offset;
    std::int64_t high = nest.source_offset + nest.element_bytes;
    for (std::size_t k = 0; k < static_cast<std::size_t>(nest.rank); ++k) {
      const std::int64_t reach = (nest.loops[k].extent - 1) * nest.loops[k].source_stride;
      low += std::min<std::int64_t>(reach, 0);
      high += std::max<std::int64_t>(reach, 0);
    }
    range = {std::min(range.begin, low), std::max(range.end, high)};
  }
  return range;
}

/// Returns the greatest common divisor of `divisor` and of all distances between `origin` and the
/// elements of `nests`.
std::int64_t common_divisor(const std::vector<LoopNest>& nests, std::int64_t origin,
                            std::int64_t divisor) {
  for (const LoopNest& nest : nests) {
    divisor = std::gcd(divisor, nest.source_offset - origin);
    for (std::size_t k = 0; k < static_cast<std::size_t>(nest.rank); ++k) {
      divisor = std::gcd(divisor, nest.loops[k].source_stride);
    }
  }
  return divisor;
}

std::int64_t longest_element(const std::vector<LoopNest>& nests) {
  std::int64_t longest = 0;
  for (const LoopNest& nest : nests) longest = std::max(longest, nest.element_bytes);
  return longest;
}

/// Appends every run within `window`. Returns false if there are too many.
bool collect(const std::vector<LoopNest>& nests, std::int64_t shift, ByteRange window,
             std::vector<ByteRange>& runs) {
  for (const LoopNest& nest : nests) {
    std::array<std::int64_t, LoopNest::loops_max> turn{};
    std::int64_t at = nest.source_offset + shift;
    while (true) {
      if (at < window.end && at + nest.element_bytes > window.begin) {
        if (runs.size() >= runs_max) return false;
        runs.push_back({at, at + nest.element_bytes});
      }
      std::size_t k = 0;
      for (; k < static_cast<std::size_t>(nest.rank); ++k) {
        at += nest.loops[k].source_stride;
        if (++turn[k] < nest.loops[k].extent) break;
        at -= nest.loops[k].source_stride * nest.loops[k].extent;
        turn[k] = 0;
      }
      if (k == static_cast<std::size_t>(nest.rank)) break;
    }
  }
  std::sort(runs.begin(), runs.end(),
            [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
  return true;
}

bool intersect(const std::vector<ByteRange>& a, const std::vector<ByteRange>& b) {
  std::size_t j = 0;
  for (const ByteRange& range : a) {
    while (j < b.size() && b[j].end <= range.begin) ++j;
    if (j < b.size() && b[j].begin < range.end) return true;
  }
  return false;
}

std::int64_t count_runs(const std::vector<LoopNest>& nests) {
  std::int64_t count = 0;
  for (const LoopNest& nest : nests) count += nest.bytes() / nest.element_bytes;
  return count;
}

}  // namespace

bool overlaps(const View& source, const View& target, std::int64_t distance) {
  if (source.points() == 0 || target.points() == 0) return false;
  const auto a = nests_of(source);
  const auto b = nests_of(target);
  const ByteRange range_a = range_of(a);
  const ByteRange range_b{range_of(b).begin + distance, range_of(b).end + distance};
  if (range_a.end <= range_b.begin || range_b.end <= range_a.begin) return false;

  const std::int64_t origin_a = a[0].source_offset;
  const std::int64_t origin_b = b[0].source_offset;
  const std::int64_t divisor = common_divisor(b, origin_b, common_divisor(a, origin_a, 0));
  if (divisor > 0) {
    const std::int64_t apart = ((origin_b + distance - origin_a) % divisor + divisor) % divisor;
    if (apart >= longest_element(a) && apart + longest_element(b) <= divisor) return false;
  }
  const auto limit = static_cast<std::int64_t>(8 * runs_max);
  if (count_runs(a) > limit || count_runs(b) > limit) return true;
  std::vector<ByteRange> runs_a;
  std::vector<ByteRange> runs_b;
  if (!collect(a, 0, range_b, runs_a) || !collect(b, distance, range_a, runs_b)) return true;
  return intersect(runs_a, runs_b);
}

}  // namespace tranship
