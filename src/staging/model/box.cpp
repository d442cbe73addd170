#include "staging/model/box.hpp"

#include <algorithm>

#include "base/at.hpp"

namespace tranship::staging {
namespace {}  // namespace

Result<Box> Box::make_bounds(const std::vector<std::int64_t>& lower,
                             const std::vector<std::int64_t>& upper) {
  if (lower.size() != upper.size() || lower.size() > at(dimensions_max)) {
    return Error{ErrorCode::invalid_argument,
                 "a box has as many lower as upper bounds, and at most " +
                     std::to_string(dimensions_max) + " dimensions, not " +
                     std::to_string(lower.size()) + " and " + std::to_string(upper.size())};
  }
  Box box;
  box.rank = static_cast<int>(lower.size());
  box.upper.fill(1);
  for (std::size_t k = 0; k < lower.size(); ++k) {
    // Every put and get runs this: the text is made only for an error.
    const auto bounds = [&] {
      return "the bounds " + std::to_string(lower[k]) + ":" + std::to_string(upper[k]) +
             " of dimension " + std::to_string(k);
    };
    if (lower[k] < -index_most || upper[k] > index_most) {
      return Error{ErrorCode::invalid_argument, bounds() + " are beyond the limit of indices, " +
                                                    std::to_string(index_most) +
                                                    " to either side; count them from nearer to 0"};
    }
    if (upper[k] <= lower[k]) {
      return Error{ErrorCode::invalid_argument, bounds() + " hold no index"};
    }
    box.lower[k] = lower[k];
    box.upper[k] = upper[k];
  }
  return box;
}

Result<Box> Box::make(const std::vector<std::int64_t>& lower,
                      const std::vector<std::int64_t>& upper) {
  auto box = make_bounds(lower, upper);
  std::int64_t points = 1;
  for (int k = 0; box && k < box->rank; ++k) {
    if (!__builtin_mul_overflow(points, box->extent(k), &points)) continue;
    return Error{ErrorCode::invalid_argument,
                 "the box " + box->text() + " has more points than 63 bits count",
                 "name a "
                 "smaller one"};
  }
  return box;
}

std::int64_t Box::points() const {
  std::int64_t points = 1;
  for (int k = 0; k < rank; ++k) points *= extent(k);
  return points;
}

std::string Box::text() const {
  std::string text = "(";
  for (int k = 0; k < rank; ++k) {
    text += (k > 0 ? ", " : "") + std::to_string(lower[at(k)]) + ":" + std::to_string(upper[at(k)]);
  }
  return text + ")";
}

std::optional<Box> intersection(const Box& a, const Box& b) {
  Box shared = a;
  for (std::size_t k = 0; k < at(a.rank); ++k) {
    shared.lower[k] = std::max(a.lower[k], b.lower[k]);
    shared.upper[k] = std::min(a.upper[k], b.upper[k]);
    if (shared.lower[k] >= shared.upper[k]) return std::nullopt;
  }
  return shared;
}

bool step(Point& cell, const Point& first, const Point& last, int rank) {
  for (std::size_t k = 0; k < at(rank); ++k) {
    if (++cell[k] <= last[k]) return true;
    cell[k] = first[k];
  }
  return false;
}

Box around(const Box& a, const Box& b) {
  Box both = a;
  for (std::size_t k = 0; k < at(a.rank); ++k) {
    both.lower[k] = std::min(a.lower[k], b.lower[k]);
    both.upper[k] = std::max(a.upper[k], b.upper[k]);
  }
  return both;
}

void subtract(const Box& box, const Box& hole, std::vector<Box>& parts) {
  const auto shared = intersection(box, hole);
  if (!shared) {
    parts.push_back(box);
    return;
  }
  Box rest = box;
  for (std::size_t k = 0; k < at(box.rank); ++k) {
    if (rest.lower[k] < shared->lower[k]) {
      Box part = rest;
      part.upper[k] = shared->lower[k];
      parts.push_back(part);
      rest.lower[k] = shared->lower[k];
    }
    if (shared->upper[k] < rest.upper[k]) {
      Box part = rest;
      part.lower[k] = shared->upper[k];
      parts.push_back(part);
      rest.upper[k] = shared->upper[k];
    }
  }
}

}  // namespace tranship::staging
