#include "plan/order.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/at.hpp"

namespace tranship {
namespace {

/// Size of a cache line, in bytes.
constexpr std::int64_t line_bytes = 64;

std::int64_t ceiling(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// A step with the distance between its values, before the steps are sorted.
struct Stride {
  Step step;
  std::int64_t bytes = 0;
  std::int64_t first_field_step = 0;  ///< for the field step, whose offsets are checked one by one
};

/// Returns whether the fields are adjacent if each has `points` values.
bool fields_adjoin(const Mapping& mapping, std::int64_t points) {
  for (std::size_t f = 1; f < mapping.fields().size(); ++f) {
    const Placement& last = mapping.fields()[f - 1];
    if (mapping.fields()[f].offset != last.offset + last.field.bytes * points) return false;
  }
  return true;
}

/// The remaining steps of one order over a tile, without steps of a single value.
class Digits {
 public:
  Digits(const Order& order, const Point& tile) : order_(order), left_(tile) { advance(); }

  bool ended() const { return next_ > order_.count; }
  int dimension() const { return dimension_; }
  std::int64_t size() const { return size_; }

  void take(std::int64_t values) {
    size_ = ceiling(size_, values);
    if (size_ <= 1) advance();
  }

 private:
  void advance() {
    while (next_ < order_.count) {
      const Step& step = order_.steps[at(next_++)];
      dimension_ = step.dimension;
      if (dimension_ < 0) {
        size_ = 2;  // more than one field, however many
        return;
      }
      std::int64_t& left = left_[at(dimension_)];
      size_ = std::min(left, step.extent);
      left = ceiling(left, step.extent);
      if (size_ > 1) return;
    }
    ++next_;
  }

  const Order& order_;
  Point left_;
  int next_ = 0;
  int dimension_ = -1;
  std::int64_t size_ = 1;
};

}  // namespace

Order Order::of(const Mapping& mapping) {
  Order order;
  order.rank = mapping.rank();
  order.point_bytes = mapping.point_bytes();
  const auto& fields = mapping.fields();
  order.field_bytes =
      std::max<std::int64_t>(order.point_bytes / static_cast<std::int64_t>(fields.size()), 1);
  std::array<std::int64_t, steps_max> stride{};
  const auto insert = [&](const Step& step, std::int64_t bytes) {
    int place = order.count++;
    for (; place > 0 && stride[at(place - 1)] > bytes; --place) {
      order.steps[at(place)] = order.steps[at(place - 1)];
      stride[at(place)] = stride[at(place - 1)];
    }
    order.steps[at(place)] = step;
    stride[at(place)] = bytes;
  };
  if (fields.size() > 1) insert({}, std::abs(fields[1].offset - fields[0].offset));
  const Placement& first = fields[0];
  for (int k = 0; k < order.rank; ++k) {
    order.blocks[at(k)] = 1;
    const std::int64_t extent = mapping.space()[at(k)].extent;
    if (extent <= 1) continue;
    const Levels& levels = first.dimension[at(k)];
    for (int j = 0; j < levels.count; ++j) {
      const Level& level = levels.level[at(j)];
      const bool rest = j + 1 == levels.count;
      const std::int64_t size = rest ? ceiling(extent, order.blocks[at(k)]) : level.radix;
      // What runs backwards, or has its blocks farther apart than their insides, is no run.
      const bool ascends =
          level.stride > 0 && (j == 0 || level.stride > levels.level[at(j - 1)].stride);
      if (size > 1) insert({k, size, ascends}, std::abs(level.stride));
      if (!rest) order.blocks[at(k)] *= level.radix;
    }
  }
  std::int64_t points = 1;
  std::int64_t unit = fields.size() > 1 ? first.field.bytes : order.point_bytes;
  for (int k = 0; k < order.count; ++k) {
    Step& step = order.steps[at(k)];
    step.distance_bytes = stride[at(k)];
    if (step.dimension < 0) {
      step.adjoins = fields_adjoin(mapping, points);
      unit = order.point_bytes;
    } else {
      step.adjoins = step.adjoins && stride[at(k)] == unit * points;
      points *= step.extent;
    }
  }
  return order;
}

std::int64_t Order::run_bytes(const Point& tile) const {
  const bool has_fields = field_bytes != point_bytes;
  std::int64_t bytes = has_fields ? field_bytes : point_bytes;
  std::int64_t points = 1;
  Point left = tile;
  for (int k = 0; k < count; ++k) {
    const Step& step = steps[at(k)];
    if (!step.adjoins) break;
    if (step.dimension < 0) {
      bytes = point_bytes;
      continue;
    }
    std::int64_t& rest = left[at(step.dimension)];
    const std::int64_t taken = std::min(rest, step.extent);
    points *= taken;
    if (taken < step.extent) break;
    rest = ceiling(rest, step.extent);
  }
  return bytes * points;
}

bool Order::enlarge(std::int64_t bytes, const Point& extents, Point& tile) const {
  std::int64_t unit = field_bytes != point_bytes ? field_bytes : point_bytes;
  std::int64_t points = 1;
  Point before;  // indices that the blocks walked so far take, by dimension
  before.fill(1);
  for (int k = 0; k < count; ++k) {
    const Step& step = steps[at(k)];
    const std::int64_t wanted = ceiling(bytes, unit * points);
    if (wanted <= 1) return true;
    if (!step.adjoins) return false;
    if (step.dimension < 0) {
      unit = point_bytes;
      continue;
    }
    const std::size_t d = at(step.dimension);
    const std::int64_t room = std::min(step.extent, ceiling(extents[d], before[d]));
    const std::int64_t taken = std::min(wanted, room);
    tile[d] = std::max(tile[d], std::min(before[d] * taken, extents[d]));
    points *= taken;
    before[d] *= step.extent;
    if (taken < step.extent) return unit * points >= bytes;
  }
  return unit * points >= bytes;
}

bool Order::enlarge_span(std::int64_t bytes, const Point& extents, Point& tile) const {
  std::int64_t span = field_bytes != point_bytes ? field_bytes : point_bytes;
  Point before;  // indices that the blocks walked so far take, by dimension
  before.fill(1);
  for (int k = 0; k < count && span < bytes; ++k) {
    const Step& step = steps[at(k)];
    if (!step.adjoins && step.distance_bytes >= span + line_bytes) return false;
    if (step.dimension < 0) {
      span = std::max(span, point_bytes);
      continue;
    }
    const std::size_t d = at(step.dimension);
    const std::int64_t distance = std::max<std::int64_t>(step.distance_bytes, 1);
    const std::int64_t wanted = ceiling(bytes - span, distance) + 1;
    const std::int64_t room = std::min(step.extent, ceiling(extents[d], before[d]));
    const std::int64_t taken = std::min(wanted, room);
    tile[d] = std::max(tile[d], std::min(before[d] * taken, extents[d]));
    span += (taken - 1) * step.distance_bytes;
    before[d] *= step.extent;
    if (taken < step.extent) break;
  }
  return span >= bytes;
}

void Order::enlarge_to_lines(std::int64_t bytes, const Point& extents, Point& tile) const {
  (void)enlarge(bytes, extents, tile);
  Point before;  // indices that the blocks walked so far take, by dimension
  before.fill(1);
  for (int k = 0; k < count; ++k) {
    const Step& step = steps[at(k)];
    if (step.dimension < 0) continue;
    if (step.distance_bytes == 0 || step.distance_bytes >= bytes) return;
    const std::size_t d = at(step.dimension);
    const std::int64_t wanted = ceiling(bytes, step.distance_bytes);
    const std::int64_t taken = std::min(step.extent, wanted);
    tile[d] = std::max(tile[d], std::min(before[d] * taken, extents[d]));
    before[d] *= step.extent;
  }
}

std::int64_t Order::slot_bytes(const Point& tile) const {
  std::int64_t points = 1;
  for (int k = 0; k < rank; ++k) {
    const std::int64_t block = std::min(blocks[at(k)], tile[at(k)]);
    points *= ceiling(tile[at(k)], block) * block;
  }
  return points * point_bytes;
}

std::int64_t common_bytes(const Order& a, const Order& b, const Point& tile, bool same_fields) {
  Digits of_a(a, tile);
  Digits of_b(b, tile);
  const bool has_fields = a.field_bytes != a.point_bytes;
  std::int64_t bytes = has_fields ? a.field_bytes : a.point_bytes;
  std::int64_t points = 1;
  while (!of_a.ended() && !of_b.ended() && of_a.dimension() == of_b.dimension()) {
    if (of_a.dimension() < 0) {
      if (!same_fields) break;
      bytes = a.point_bytes;
      of_a.take(of_a.size());
      of_b.take(of_b.size());
      continue;
    }
    const std::int64_t taken = std::min(of_a.size(), of_b.size());
    points *= taken;
    of_a.take(taken);
    of_b.take(taken);
  }
  return bytes * points;
}

}  // namespace tranship
