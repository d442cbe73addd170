// A set of versions in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace tranship::staging {

/// Versions, stored as intervals, so that versions that follow each other take the room of one. Of
/// more than `intervals_max` intervals the lowest two become one with what lies between them, or
/// the lowest is forgotten. Costs are logarithms of the number of intervals. Not thread-safe.
class VersionSet {
 public:
  enum class Excess { join, forget };
  using Interval = std::pair<std::int64_t, std::int64_t>;  ///< Both inclusive.

  explicit VersionSet(Excess excess = Excess::join, std::size_t intervals_max = 64)
      : excess_(excess), intervals_max_(intervals_max) {}

  /// Adds the versions from `first` to `last`; none if `last` is below `first`.
  void insert(std::int64_t first, std::int64_t last);
  bool contains(std::int64_t version) const;
  /// Returns the versions from `first` to `last` that are not in the set, in rising order.
  std::vector<Interval> gaps(std::int64_t first, std::int64_t last) const;
  std::size_t intervals() const { return intervals_.size(); }

 private:
  Excess excess_;
  std::size_t intervals_max_;
  std::map<std::int64_t, std::int64_t> intervals_;  ///< Last versions by first ones.
};

}  // namespace tranship::staging
