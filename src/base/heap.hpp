// An allocator of ranges in numbered segments of memory.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace tranship {

/// A range of bytes in one segment.
struct Range {
  int segment = 0;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

/// Allocates ranges of segments: from the start of the smallest hole that is large enough (best
/// fit); neighbouring holes are merged. Offsets and lengths are multiples of the alignment. A call
/// costs the logarithm of the number of holes. It does not touch the memory itself. Threads: one.
class Heap {
 public:
  explicit Heap(std::int64_t alignment) : alignment_(alignment) {}

  /// Returns `bytes` rounded up to a multiple of the alignment, at least one alignment.
  std::int64_t rounded(std::int64_t bytes) const;

  void add_segment(int segment, std::int64_t bytes);
  /// Returns the segments in which nothing is allocated, each as one range.
  std::vector<Range> free_segments() const;
  /// Removes a segment in which nothing is allocated.
  void remove_segment(int segment);
  /// Returns the numbers of all segments.
  std::vector<int> segments() const;
  /// Returns the length of the hole that ends at an offset of a segment; 0 if none does.
  std::int64_t free_before(int segment, std::int64_t offset) const;
  /// Makes a segment shorter by so many bytes, which are free at its end.
  void cut_tail(int segment, std::int64_t bytes);
  /// Returns the bytes of the largest segment; 0 without one.
  std::int64_t largest_segment_bytes() const;

  /// Moves a segment with its allocated ranges to another heap of the same alignment.
  void move_segment(int segment, Heap& to);
  bool has_segment(int segment) const { return segments_.contains(segment); }
  /// Returns the bytes of a segment of this heap.
  std::int64_t segment_bytes(int segment) const { return segments_.at(segment); }
  std::int64_t segment_bytes_free(int segment) const;

  /// Returns a range of at least `bytes` (0 or more) bytes, or nothing if no hole is large enough.
  std::optional<Range> allocate(std::int64_t bytes);
  /// Frees a range that allocate() returned, or a part of one.
  void release(const Range& range);

  std::int64_t bytes() const { return bytes_; }            ///< of all segments
  std::int64_t bytes_free() const { return bytes_free_; }  ///< in all holes

 private:
  using Start = std::pair<int, std::int64_t>;  ///< segment number and offset

  void add_hole(const Start& start, std::int64_t bytes);
  void remove_hole(std::map<Start, std::int64_t>::iterator hole);

  std::int64_t alignment_;
  std::map<int, std::int64_t> segments_;  ///< size of each, by number
  std::map<Start, std::int64_t> holes_;
  std::set<std::pair<std::int64_t, Start>> by_size_;
  std::int64_t bytes_ = 0;
  std::int64_t bytes_free_ = 0;
};

}  // namespace tranship
