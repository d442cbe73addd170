#include "data/overlap.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "data/lowering.hpp"
#include "data/points.hpp"
#include "data/reachable.hpp"

namespace tranship {
namespace {

struct ByteRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

constexpr std::size_t runs_max = std::size_t{1} << 22;

/// Steps of a search among the strides, each of some 10 ns; others look at the runs one by one.
constexpr std::int64_t steps_most = 20'000;
/// Most pairs of nests that are searched so.
constexpr std::size_t pairs_most = 1024;
/// Most elements, and bytes of a box, that are marked one by one.
constexpr std::int64_t marked_elements_most = std::int64_t{1} << 27;
constexpr std::int64_t marked_bytes_most = std::int64_t{1} << 33;

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

/// Returns whether a byte of one nest is one of the other's, found by their strides alone.
StrideSum::Answer nests_meet(const LoopNest& a, const LoopNest& b, std::int64_t distance,
                             std::int64_t& steps) {
  StrideSum apart;
  for (std::size_t k = 0; k < static_cast<std::size_t>(a.rank); ++k) {
    apart.add(a.loops[k].source_stride, a.loops[k].extent - 1);
  }
  for (std::size_t k = 0; k < static_cast<std::size_t>(b.rank); ++k) {
    apart.add(-b.loops[k].source_stride, b.loops[k].extent - 1);
  }
  const std::int64_t between = b.source_offset + distance - a.source_offset;
  return apart.reaches(between - a.element_bytes + 1, between + b.element_bytes - 1, steps);
}

StrideSum::Answer nests_meet(const std::vector<LoopNest>& a, const std::vector<LoopNest>& b,
                             std::int64_t distance) {
  if (a.size() * b.size() > pairs_most) return StrideSum::Answer::unknown;
  std::int64_t steps = steps_most;
  bool unknown = false;
  for (const LoopNest& one : a) {
    for (const LoopNest& other : b) {
      const StrideSum::Answer answer = nests_meet(one, other, distance, steps);
      if (answer == StrideSum::Answer::yes) return answer;
      unknown = unknown || answer == StrideSum::Answer::unknown;
    }
  }
  return unknown ? StrideSum::Answer::unknown : StrideSum::Answer::no;
}

/// Returns whether elements of `bytes` that lie as those of `field` share none: each index of a
/// dimension lies behind all bytes of those before it, in the order of the strides. False: unknown.
bool is_nested(const Placement& field, std::int64_t bytes, const View& view) {
  struct Stretch {
    std::int64_t stride;
    std::int64_t most;
  };
  std::array<Stretch, dimensions_max> steps;
  std::size_t count = 0;
  for (auto k = static_cast<std::size_t>(view.mapping->rank()); k-- > 0;) {  // most are in order
    if (view.extents[k] < 2) continue;
    const Stretch step{std::abs(field.dimension[k].level[0].stride), view.extents[k] - 1};
    std::size_t at = count++;
    for (; at > 0 && steps[at - 1].stride > step.stride; --at) steps[at] = steps[at - 1];
    steps[at] = step;
  }
  std::int64_t span = bytes;
  for (std::size_t k = 0; k < count; ++k) {
    if (steps[k].stride < span) return false;
    span += steps[k].most * steps[k].stride;
  }
  return true;
}

ByteRange range_of(const Placement& field, const View& view) {
  ByteRange range{field.offset, field.offset + field.field.bytes};
  for (std::size_t k = 0; k < static_cast<std::size_t>(view.mapping->rank()); ++k) {
    const std::int64_t reach =
        std::max<std::int64_t>(view.extents[k] - 1, 0) * field.dimension[k].level[0].stride;
    (reach < 0 ? range.begin : range.end) += reach;
  }
  return range;
}

/// Returns whether the elements are records whose indices are nested, or fields of which each lies
/// by itself. False: unknown.
bool is_orderly(const View& view) {
  const std::vector<Placement>& fields = view.mapping->fields();
  if (fields.size() == 1) return is_nested(fields[0], fields[0].field.bytes, view);
  std::int64_t low = fields[0].offset;
  std::int64_t high = low;
  bool alike = true;
  for (const Placement& field : fields) {
    alike = alike && field.dimension == fields[0].dimension;
    low = std::min(low, field.offset);
    high = std::max(high, field.offset + field.field.bytes);
  }
  if (alike && is_nested(fields[0], high - low, view)) return true;
  std::vector<ByteRange> ranges;
  for (const Placement& field : fields) {
    if (!is_nested(field, field.field.bytes, view)) return false;
    ranges.push_back(range_of(field, view));
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
  for (std::size_t k = 1; k < ranges.size(); ++k) {
    if (ranges[k].begin < ranges[k - 1].end) return false;
  }
  return true;
}

/// The strides of a field in the dimensions of a box that have several indices.
struct Steps {
  std::array<std::int64_t, dimensions_max> stride{};
  std::array<std::int64_t, dimensions_max> most{};
  std::size_t count = 0;
};

Steps steps_of(const Placement& placement, const View& view) {
  Steps steps;
  for (std::size_t k = 0; k < view.mapping->space().size(); ++k) {
    if (view.extents[k] < 2) continue;
    steps.stride[steps.count] = placement.dimension[k].level[0].stride;
    steps.most[steps.count++] = view.extents[k] - 1;
  }
  return steps;
}

/// Returns whether two different points are from `low` to `high` bytes apart. Points differ first
/// in one dimension, in which the second lies `sign` or more indices after the first.
StrideSum::Answer points_apart(const Steps& steps, std::int64_t sign, std::int64_t low,
                               std::int64_t high, std::int64_t& left) {
  for (std::size_t first = 0; first < steps.count; ++first) {
    StrideSum sum;
    std::int64_t shift = sign * steps.stride[first];
    sum.add(sign * steps.stride[first], steps.most[first] - 1);
    for (std::size_t k = first + 1; k < steps.count; ++k) {  // from -most to most
      sum.add(steps.stride[k], 2 * steps.most[k]);
      shift -= steps.stride[k] * steps.most[k];
    }
    const StrideSum::Answer answer = sum.reaches(low - shift, high - shift, left);
    if (answer != StrideSum::Answer::no) return answer;
  }
  return StrideSum::Answer::no;
}

/// Returns whether a byte of one field is one of the other's at another point.
StrideSum::Answer fields_meet(const Placement& a, const Placement& b, const View& view,
                              std::int64_t& left) {
  const std::int64_t low = a.offset - b.offset - b.field.bytes + 1;
  const std::int64_t high = a.offset - b.offset + a.field.bytes - 1;
  const Steps steps = steps_of(a, view);
  if (a.dimension == b.dimension) {
    const StrideSum::Answer answer = points_apart(steps, 1, low, high, left);
    if (answer != StrideSum::Answer::no || &a == &b) return answer;
    return points_apart(steps, -1, low, high, left);
  }
  StrideSum sum;  // of the second's offset from the first
  const Steps others = steps_of(b, view);
  for (std::size_t k = 0; k < others.count; ++k) sum.add(others.stride[k], others.most[k]);
  for (std::size_t k = 0; k < steps.count; ++k) sum.add(-steps.stride[k], steps.most[k]);
  return sum.reaches(low, high, left);
}

/// Marks the bytes of each element, and returns whether one was marked before; true if there are
/// too many of them.
bool marks_twice(const View& view) {
  const auto nests = nests_of(view);
  const ByteRange range = range_of(nests);
  if (view.bytes() > marked_elements_most || range.end - range.begin > marked_bytes_most) {
    return true;
  }
  std::vector<bool> marked(static_cast<std::size_t>(range.end - range.begin));
  bool twice = false;
  const auto mark = [&](std::int64_t at, std::int64_t bytes) {
    for (std::int64_t k = at - range.begin; k < at - range.begin + bytes && !twice; ++k) {
      twice = marked[static_cast<std::size_t>(k)];
      marked[static_cast<std::size_t>(k)] = true;
    }
  };
  for (const LoopNest& nest : nests) {
    each_point(nest, nest.source_offset, 0,
               [&](const Run& point) { mark(point.source_offset, nest.element_bytes); });
  }
  return twice;
}

}  // namespace

bool elements_share_bytes(const View& view) {
  if (!view.mapping->strided() || view.points() == 0 || is_orderly(view)) return false;
  std::int64_t left = steps_most;
  const std::vector<Placement>& fields = view.mapping->fields();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    for (std::size_t j = i; j < fields.size(); ++j) {
      switch (fields_meet(fields[i], fields[j], view, left)) {
        case StrideSum::Answer::no: break;
        case StrideSum::Answer::yes: return true;
        case StrideSum::Answer::unknown: return marks_twice(view);
      }
    }
  }
  return false;
}

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
  const StrideSum::Answer answer = nests_meet(a, b, distance);
  if (answer != StrideSum::Answer::unknown) return answer == StrideSum::Answer::yes;
  const auto limit = static_cast<std::int64_t>(8 * runs_max);
  if (count_runs(a) > limit || count_runs(b) > limit) return true;
  std::vector<ByteRange> runs_a;
  std::vector<ByteRange> runs_b;
  if (!collect(a, 0, range_b, runs_a) || !collect(b, distance, range_a, runs_b)) return true;
  return intersect(runs_a, runs_b);
}

}  // namespace tranship
