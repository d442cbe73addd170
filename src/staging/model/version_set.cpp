#include "staging/model/version_set.hpp"

#include <algorithm>
#include <iterator>

namespace tranship::staging {

void VersionSet::insert(std::int64_t first, std::int64_t last) {
  if (last < first) return;
  auto one = intervals_.upper_bound(first);
  // The interval below takes part if it meets this one, or ends right before it.
  if (one != intervals_.begin() && std::prev(one)->second >= first - (first > INT64_MIN)) --one;
  while (one != intervals_.end() && one->first <= last + (last < INT64_MAX)) {
    first = std::min(first, one->first);
    last = std::max(last, one->second);
    one = intervals_.erase(one);
  }
  intervals_.emplace(first, last);
  while (intervals_.size() > intervals_max_) {
    const auto lowest = intervals_.begin();
    const std::int64_t begin = lowest->first;
    intervals_.erase(lowest);
    if (excess_ == Excess::forget) continue;
    auto joined = intervals_.extract(intervals_.begin());
    joined.key() = begin;
    intervals_.insert(std::move(joined));
  }
}

bool VersionSet::contains(std::int64_t version) const {
  const auto above = intervals_.upper_bound(version);
  return above != intervals_.begin() && version <= std::prev(above)->second;
}

std::vector<VersionSet::Interval> VersionSet::gaps(std::int64_t first, std::int64_t last) const {
  std::vector<Interval> gaps;
  auto one = intervals_.upper_bound(first);
  if (one != intervals_.begin()) --one;
  for (; one != intervals_.end() && one->first <= last; ++one) {
    if (one->second < first) continue;
    if (one->first > first) gaps.emplace_back(first, one->first - 1);
    if (one->second >= last) return gaps;
    first = one->second + 1;
  }
  if (first <= last) gaps.emplace_back(first, last);
  return gaps;
}

}  // namespace tranship::staging
