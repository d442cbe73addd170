// Which versions of a variable were discarded, remembered in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tranship::staging {

/// A set of versions, stored as intervals, so that consecutive versions take the room of one.
/// Law: contains() is true for all that was inserted. With more than `intervals_max` intervals, the
/// lowest ones and the gaps between them count as inserted, too: at and below low_water()
/// everything is. Costs are logarithms, except for inserting, which may move all intervals. Not
/// thread-safe.
class DiscardedVersions {
 public:
  /// At least 1.
  explicit DiscardedVersions(std::size_t intervals_max = 256) : intervals_max_(intervals_max) {}

  void insert(std::int64_t version);
  bool contains(std::int64_t version) const;
  bool empty() const { return intervals_.empty(); }
  std::size_t intervals() const { return intervals_.size(); }
  /// Returns the version at and below which everything counts as discarded; INT64_MIN if none.
  std::int64_t low_water() const { return low_water_; }

 private:
  using Interval = std::pair<std::int64_t, std::int64_t>;  ///< Both inclusive.

  std::size_t intervals_max_;
  std::int64_t low_water_ = INT64_MIN;
  std::vector<Interval> intervals_;  ///< In rising order, with gaps between them.
};

}  // namespace tranship::staging
