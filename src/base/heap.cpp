#include "base/heap.hpp"

#include <algorithm>
#include <iterator>

#include "base/check.hpp"

namespace tranship {

std::int64_t Heap::rounded(std::int64_t bytes) const {
  return (std::max<std::int64_t>(bytes, 1) + alignment_ - 1) / alignment_ * alignment_;
}

void Heap::add_segment(int segment, std::int64_t bytes) {
  const std::int64_t usable = bytes / alignment_ * alignment_;
  if (usable == 0) return;
  segments_[segment] = usable;
  bytes_ += usable;
  add_hole({segment, 0}, usable);
}

std::vector<Range> Heap::free_segments() const {
  std::vector<Range> free;
  for (const auto& [segment, bytes] : segments_) {
    const auto hole = holes_.find({segment, 0});
    if (hole != holes_.end() && hole->second == bytes) free.push_back({segment, 0, bytes});
  }
  return free;
}

void Heap::remove_segment(int segment) {
  const std::int64_t bytes = segments_.at(segment);
  CHECK(segment_bytes_free(segment) == bytes, "nothing is allocated in a segment that goes");
  remove_hole(holes_.find({segment, 0}));
  bytes_ -= bytes;
  segments_.erase(segment);
}

std::int64_t Heap::segment_bytes_free(int segment) const {
  std::int64_t sum = 0;
  for (auto hole = holes_.lower_bound({segment, 0});
       hole != holes_.end() && hole->first.first == segment; ++hole) {
    sum += hole->second;
  }
  return sum;
}

std::vector<int> Heap::segments() const {
  std::vector<int> numbers;
  for (const auto& [segment, bytes] : segments_) numbers.push_back(segment);
  return numbers;
}

std::int64_t Heap::free_before(int segment, std::int64_t offset) const {
  const auto next = holes_.lower_bound({segment, offset});
  if (next == holes_.begin()) return 0;
  const auto& [start, bytes] = *std::prev(next);
  return start.first == segment && start.second + bytes == offset ? bytes : 0;
}

void Heap::cut_tail(int segment, std::int64_t bytes) {
  std::int64_t& end = segments_.at(segment);
  const std::int64_t free = free_before(segment, end);
  CHECK(bytes > 0 && bytes <= free && bytes % alignment_ == 0, "the end of a segment is free");
  remove_hole(holes_.find({segment, end - free}));
  if (free > bytes) add_hole({segment, end - free}, free - bytes);
  end -= bytes;
  bytes_ -= bytes;
}

std::int64_t Heap::largest_segment_bytes() const {
  std::int64_t largest = 0;
  for (const auto& [segment, bytes] : segments_) largest = std::max(largest, bytes);
  return largest;
}

void Heap::move_segment(int segment, Heap& to) {
  const auto found = segments_.find(segment);
  CHECK(found != segments_.end() && alignment_ == to.alignment_, "a segment of this heap");
  to.segments_.insert(*found);
  to.bytes_ += found->second;
  bytes_ -= found->second;
  segments_.erase(found);
  for (auto hole = holes_.lower_bound({segment, 0});
       hole != holes_.end() && hole->first.first == segment;) {
    const auto next = std::next(hole);
    to.add_hole(hole->first, hole->second);
    remove_hole(hole);
    hole = next;
  }
}

void Heap::add_hole(const Start& start, std::int64_t bytes) {
  holes_[start] = bytes;
  by_size_.insert({bytes, start});
  bytes_free_ += bytes;
}

void Heap::remove_hole(std::map<Start, std::int64_t>::iterator hole) {
  by_size_.erase({hole->second, hole->first});
  bytes_free_ -= hole->second;
  holes_.erase(hole);
}

std::optional<Range> Heap::allocate(std::int64_t bytes) {
  const std::int64_t length = rounded(bytes);
  const auto fits = by_size_.lower_bound({length, {}});
  if (fits == by_size_.end()) return std::nullopt;
  const auto [hole_bytes, start] = *fits;
  remove_hole(holes_.find(start));
  if (hole_bytes > length) add_hole({start.first, start.second + length}, hole_bytes - length);
  return Range{start.first, start.second, length};
}

void Heap::release(const Range& range) {
  Start start{range.segment, range.offset};
  std::int64_t bytes = range.bytes;
  const auto next = holes_.lower_bound(start);
  if (next != holes_.begin()) {
    const auto before = std::prev(next);
    const std::int64_t end = before->first.second + before->second;
    CHECK(before->first.first != start.first || end <= start.second, "a range is released once");
    if (before->first.first == start.first && end == start.second) {
      start = before->first;
      bytes += before->second;
      remove_hole(before);
    }
  }
  if (next != holes_.end() && next->first.first == start.first) {
    CHECK(start.second + bytes <= next->first.second, "a range is released once");
    if (start.second + bytes == next->first.second) {
      bytes += next->second;
      remove_hole(next);
    }
  }
  add_hole(start, bytes);
}

}  // namespace tranship
