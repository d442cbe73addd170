// A priority queue of simulated events, for many thousands of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tranship {

/// A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan, J. ACM 1990): times are removed in order, and none
/// is inserted before the last removed one. An entry moves down through the buckets at most once
/// for each bit in which its time differs from the present one, over memory that is read in
/// sequence; a binary heap of the same size misses the caches at each level.
class TimeQueue {
 public:
  struct DueTime {
    std::int64_t time_ns = 0;
    int source = 0;
  };

  /// Inserts an event. A time before the last removed one is raised to it.
  void push(std::int64_t time_ns, int source);

  /// Removes and returns the entry with the least time. The order of equal times is unspecified
  /// but deterministic.
  std::optional<DueTime> pop();

  std::size_t size() const { return size_; }

 private:
  std::size_t bucket_of(std::int64_t time_ns) const;
  bool refill();

  /// Bucket 0 holds what is due at `last_ns_`; bucket k what first differs from it in bit k - 1.
  std::array<std::vector<DueTime>, 64> buckets_;
  std::size_t due_ = 0;  ///< entries of bucket 0 that have come out
  std::int64_t last_ns_ = 0;
  std::size_t size_ = 0;
};

}  // namespace tranship
