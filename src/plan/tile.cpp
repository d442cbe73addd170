#include "plan/tile.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/at.hpp"

namespace tranship {
namespace {

/// Steps of the binary search on the rate, which ends a few percent below the best. Both ends get
/// the remaining room afterwards.
constexpr int rate_steps = 6;
/// Longest run or span that is searched when both ends are fast enough, as a power of two.
constexpr int even_log2_max = 42;
/// Factors below an end's best rate at which the search starts, as powers of two.
constexpr std::array<double, 3> rate_spans_log2{3, 8, 20};

/// Returns whether both orders have the same sequence of dimensions, so that one tile suits both.
bool same_sequence(const Order& a, const Order& b) {
  int of_b = 0;
  for (int k = 0; k < a.count; ++k) {
    if (a.steps[at(k)].dimension < 0) continue;
    while (of_b < b.count && b.steps[at(of_b)].dimension < 0) ++of_b;
    if (of_b == b.count || a.steps[at(k)].dimension != b.steps[at(of_b)].dimension) return false;
    ++of_b;
  }
  return true;
}

class BoxSearch {
 public:
  BoxSearch(const TileEnd& source, const TileEnd& target, const Point& extents,
            std::int64_t bytes_max)
      : source_(source), target_(target), extents_(extents), bytes_max_(bytes_max) {
    rank_ = target.order->rank;
    least_.fill(1);
    take_whole_lines(least_);
  }

  /// Returns the smallest box: whole lines at both ends, if there is room for them.
  const Point& least() const { return least_; }

  /// Finds the smallest box with which both ends reach `rate`; returns false if it is too large.
  bool box_for_rate(double rate, Point& box) const {
    box = least_;
    for (const TileEnd* end : {&source_, &target_}) {
      if (end->throughput == nullptr) continue;
      const std::int64_t run = end->throughput->run_for(bytes_max_, rate);
      // Where no run is long enough, the longest will do: the search starts from its rate.
      end->order->enlarge(std::min(run, bytes_max_), extents_, box);
    }
    return bytes_of(box) <= bytes_max_;
  }

  /// Returns the rate that both ends would reach if each had all the room alone.
  double rate_max() const {
    double rate = INFINITY;
    for (const TileEnd* end : {&source_, &target_}) {
      if (end->throughput == nullptr) continue;
      Point box = least_;
      end->order->enlarge(bytes_max_, extents_, box);
      rate = std::min(rate, end->throughput->at(bytes_max_, end->order->run_bytes(box)));
    }
    return rate;
  }

  /// Finds the smallest box of the best feasible rate (up to the steps of the search), and an upper
  /// bound for the rate of any box.
  struct Best {
    Point box{};
    double rate_above = INFINITY;
  };
  Best best() const {
    const double most = rate_max();
    Best found{least_, most};
    if (!std::isfinite(most) || most <= 0) return found;
    if (box_for_rate(most, found.box)) return found;
    double low = 0;  // log2 of a share of `most` that is feasible
    double high = 0;
    Point box;
    for (const double span : rate_spans_log2) {
      high = low;
      low = -span;
      if (box_for_rate(most * std::exp2(low), found.box)) break;
      found.box = least_;
      if (span == rate_spans_log2.back()) return found;
    }
    for (int k = 0; k < rate_steps; ++k) {
      const double middle = (low + high) / 2;
      if (box_for_rate(most * std::exp2(middle), box)) {
        low = middle;
        found.box = box;
      } else {
        high = middle;
      }
    }
    found.rate_above = most * std::exp2(high);
    return found;
  }

  /// Changes the extents so that tiles divide each dimension evenly, if there is room for it.
  void round_up(Point& box) const {
    Point wider = box;
    for (int k = 0; k < rank_; ++k) {
      const std::int64_t fewer = extents_[at(k)] / box[at(k)];
      wider[at(k)] = (extents_[at(k)] + fewer - 1) / fewer;
    }
    if (bytes_of(wider) <= bytes_max_) box = wider;
  }

  /// What becomes equally long at both ends.
  enum class Even { runs, spans };

  /// Grows the box so that its runs, or its spans, become equally long at both ends, as far as
  /// there is room.
  void even_ends(Even what, Point& box) const {
    int low = 0;
    int high = even_log2_max * steps_in_log2(what);
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (bytes_of(grown(what, box, middle)) <= bytes_max_) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    const Point larger = grown(what, box, low);
    if (bytes_of(larger) <= bytes_max_) box = larger;
  }

  /// Grows the box into the remaining room, along the target's order.
  void fill(Point& box) const {
    const Order& order = *target_.order;
    for (int k = 0; k < order.count; ++k) {
      if (order.steps[at(k)].dimension < 0) continue;
      const std::size_t d = at(order.steps[at(k)].dimension);
      const std::int64_t others = bytes_of(box) / box[d];
      box[d] = std::clamp(bytes_max_ / std::max<std::int64_t>(others, 1), box[d], extents_[d]);
    }
  }

  /// Spreads the indices evenly over the tiles, in whole blocks where there are some and in whole
  /// cache lines where the tile is long, without falling below `least`.
  void spread(Point& box, const Point& least) const {
    for (int k = 0; k < rank_; ++k) {
      const std::size_t d = at(k);
      const std::int64_t block = std::max(source_.order->blocks[d], target_.order->blocks[d]);
      box[d] = std::max(even(extents_[d], box[d], block), least[d]);
    }
  }

 private:
  /// Grows the box so that both ends have whole lines in it, if there is room for them.
  void take_whole_lines(Point& box) const {
    Point larger = box;
    for (const TileEnd* end : {&source_, &target_}) {
      end->order->enlarge_to_lines(line_pair_bytes, extents_, larger);
    }
    if (bytes_of(larger) <= bytes_max_) box = larger;
  }

  std::int64_t bytes_of(const Point& box) const {
    return points_of(box, rank_) * target_.order->point_bytes;
  }

  /// Steps of the search in a power of two. Rates are known for runs of such lengths.
  static int steps_in_log2(Even what) { return what == Even::runs ? 1 : 4; }

  /// Returns the box enlarged to that length at both ends, in steps of its logarithm.
  Point grown(Even what, const Point& box, int step) const {
    const double log2 = static_cast<double>(step) / steps_in_log2(what);
    const auto bytes = static_cast<std::int64_t>(std::exp2(log2));
    Point larger = box;
    for (const TileEnd* end : {&source_, &target_}) {
      if (what == Even::runs) {
        end->order->enlarge(bytes, extents_, larger);
      } else {
        end->order->enlarge_span(bytes, extents_, larger);
      }
    }
    return larger;
  }

  static std::int64_t even(std::int64_t extent, std::int64_t tile, std::int64_t block) {
    if (tile >= extent) return extent;
    const std::int64_t tiles = (extent + tile - 1) / tile;
    std::int64_t width = (extent + tiles - 1) / tiles;
    for (const std::int64_t unit : {std::lcm(block, tile_unit), block}) {
      if (width <= unit) continue;
      const std::int64_t most = tile < width + unit ? tile : width + unit - 1;
      width = std::max(most / unit, std::int64_t{1}) * unit;
      break;
    }
    return std::min(width, extent);
  }

  const TileEnd& source_;
  const TileEnd& target_;
  const Point& extents_;
  std::int64_t bytes_max_;
  int rank_ = 0;
  Point least_{};  ///< whole lines at both ends, if there is room for them
};

}  // namespace

TileChoice choose_tile(const TileEnd& source, const TileEnd& target, const Point& extents,
                       std::int64_t bytes_max) {
  const BoxSearch search(source, target, extents, bytes_max);
  TileChoice choice;
  Point& box = choice.tile;
  const int rank = target.order->rank;
  for (int k = 0; k < rank; ++k) box[at(k)] = 1;
  if (points_of(extents, rank) == 0) return choice;
  Point least = box;
  if (same_sequence(*source.order, *target.order)) {
    choice.rate_most = search.rate_max();
  } else {
    const auto best = search.best();
    choice.rate_most = best.rate_above;
    least = best.box;
    search.round_up(least);
    for (int k = 0; k < rank; ++k) box[at(k)] = least[at(k)];
    search.even_ends(BoxSearch::Even::runs, box);
  }
  search.fill(box);
  search.spread(box, least);
  return choice;
}

Point choose_even_tile(const Order& source, const Order& target, const Point& extents,
                       std::int64_t bytes_max) {
  const TileEnd ends[] = {{&source, nullptr}, {&target, nullptr}};
  const BoxSearch search(ends[0], ends[1], extents, bytes_max);
  Point box = search.least();
  search.even_ends(BoxSearch::Even::spans, box);
  search.fill(box);
  search.spread(box, search.least());
  return box;
}

std::int64_t in_units(std::int64_t extent, std::int64_t block, std::int64_t whole) {
  const std::int64_t unit = std::lcm(block, tile_unit);
  return extent < whole && extent > unit ? extent / unit * unit : extent;
}

std::int64_t tile_count(const Point& extents, const Point& tile, int rank) {
  std::int64_t count = 1;
  for (std::size_t k = 0; k < static_cast<std::size_t>(rank); ++k) {
    if (extents[k] == 0) return 0;  // a tile of nothing has no extent either
    count *= (extents[k] + tile[k] - 1) / tile[k];
  }
  return count;
}

TileBox tile_at(const Point& extents, const Point& tile, int rank, std::int64_t number) {
  TileBox box;
  for (std::size_t j = static_cast<std::size_t>(rank); j > 0; --j) {
    const std::size_t k = j - 1;
    const std::int64_t tiles = (extents[k] + tile[k] - 1) / tile[k];
    box.lower[k] = number % tiles * tile[k];
    box.extents[k] = std::min(tile[k], extents[k] - box.lower[k]);
    number /= tiles;
  }
  return box;
}

}  // namespace tranship
