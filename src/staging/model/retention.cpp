#include "staging/model/retention.hpp"

#include <algorithm>

namespace tranship::staging {

void DiscardedVersions::insert(std::int64_t version) {
  if (contains(version)) return;
  // The first interval above; neighbours that it touches become one with it.
  auto above = std::upper_bound(
      intervals_.begin(), intervals_.end(), version,
      [](std::int64_t value, const Interval& interval) { return value < interval.first; });
  const bool joins_above = above != intervals_.end() && version + 1 == above->first;
  const bool joins_below = above != intervals_.begin() && std::prev(above)->second == version - 1;
  if (joins_above && joins_below) {
    std::prev(above)->second = above->second;
    intervals_.erase(above);
  } else if (joins_above) {
    above->first = version;
  } else if (joins_below) {
    std::prev(above)->second = version;
  } else {
    intervals_.insert(above, {version, version});
  }
  while (intervals_.size() > intervals_max_) {
    intervals_[1].first = INT64_MIN;
    low_water_ = intervals_[1].second;
    intervals_.erase(intervals_.begin());
  }
}

bool DiscardedVersions::contains(std::int64_t version) const {
  const auto above = std::upper_bound(
      intervals_.begin(), intervals_.end(), version,
      [](std::int64_t value, const Interval& interval) { return value < interval.first; });
  return above != intervals_.begin() && version <= std::prev(above)->second;
}

}  // namespace tranship::staging
