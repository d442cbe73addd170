// Which ranges of some memory's segments are taken.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace tranship {

/// A range of a segment.
struct Range {
  int segment = 0;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

/// Hands out ranges of segments: the smallest hole that fits, its first bytes; holes that meet
/// become one. Ranges begin at multiples of the alignment and are as long. Costs the logarithm of
/// the number of holes. Not thread-safe.
class Heap {
 public:
  explicit Heap(std::int64_t alignment) : alignment_(alignment) {}

  /// So many bytes in whole alignments, at least one.
  std::int64_t rounded(std::int64_t bytes) const;

  void add_segment(int segment, std::int64_t bytes);
  /// Removes the segments of which nothing is taken, and returns their numbers.
  std::vector<int> remove_free_segments();

  /// Gives a segment to another heap of the same alignment, with what is taken of it.
  void move_segment(int segment, Heap& to);
  bool has_segment(int segment) const { return segments_.contains(segment); }

  /// Nothing if no hole is large enough. `bytes` is not negative.
  std::optional<Range> allocate(std::int64_t bytes);
  void release(const Range& range);

  std::int64_t bytes() const { return bytes_; }            ///< of all segments
  std::int64_t bytes_free() const { return bytes_free_; }  ///< in all holes

 private:
  using Start = std::pair<int, std::int64_t>;  ///< segment and offset

  void add_hole(const Start& start, std::int64_t bytes);
  void remove_hole(std::map<Start, std::int64_t>::iterator hole);

  std::int64_t alignment_;
  std::map<int, std::int64_t> segments_;  ///< their bytes
  std::map<Start, std::int64_t> holes_;
  std::set<std::pair<std::int64_t, Start>> by_size_;
  std::int64_t bytes_ = 0;
  std::int64_t bytes_free_ = 0;
};

}  // namespace tranship
