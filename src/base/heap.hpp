// Where objects lie in a server's memory.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace tranship::staging {

/// A range of a segment.
struct Range {
  int segment = 0;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

/// Hands out ranges of segments: the smallest hole that fits, its first bytes; holes that meet
/// become one. Ranges begin at multiples of `alignment` and are as long. Costs the logarithm of the
/// number of holes. Not thread-safe.
class Heap {
 public:
  static constexpr std::int64_t alignment = 256;

  void add_segment(int segment, std::int64_t bytes);

  /// Nothing if no hole is large enough. `bytes` is not negative.
  std::optional<Range> allocate(std::int64_t bytes);
  void release(const Range& range);

  std::int64_t bytes() const { return bytes_; }            ///< of all segments
  std::int64_t bytes_free() const { return bytes_free_; }  ///< in all holes

 private:
  using Start = std::pair<int, std::int64_t>;  ///< segment and offset

  void add_hole(const Start& start, std::int64_t bytes);
  void remove_hole(std::map<Start, std::int64_t>::iterator hole);

  std::map<Start, std::int64_t> holes_;
  std::set<std::pair<std::int64_t, Start>> by_size_;
  std::int64_t bytes_ = 0;
  std::int64_t bytes_free_ = 0;
};

}  // namespace tranship::staging
