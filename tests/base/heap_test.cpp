// The heap, compared with a list of all ranges.
#include <vector>

#include "base/heap.hpp"
#include "base/random.hpp"
#include "support/test.hpp"

using namespace tranship;

TEST(ranges_never_overlap_and_released_ones_merge) {
  constexpr std::int64_t alignment = 256;
  Random random(3);
  Heap heap(alignment);
  heap.add_segment(0, 100000);
  heap.add_segment(1, 50000);
  const std::int64_t bytes = heap.bytes();
  std::vector<Range> taken;
  int refused = 0;
  for (int k = 0; k < 5000; ++k) {
    if (random.below(2) == 0 || taken.empty()) {
      const auto range = heap.allocate(random.between(0, 9000));
      if (!range) {
        ++refused;
        continue;
      }
      for (const Range& other : taken) {
        const bool apart = other.segment != range->segment ||
                           other.offset + other.bytes <= range->offset ||
                           range->offset + range->bytes <= other.offset;
        EXPECT(apart);
      }
      EXPECT(range->offset >= 0 && range->offset % alignment == 0);
      EXPECT(range->offset + range->bytes <= (range->segment == 0 ? 100000 : 50000));
      taken.push_back(*range);
    } else {
      const auto one = random.below(taken.size());
      heap.release(taken[one]);
      taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(one));
    }
  }
  EXPECT(refused > 0);
  for (const Range& range : taken) heap.release(range);
  EXPECT_EQ(heap.bytes_free(), bytes);
  EXPECT(heap.allocate(99000).has_value());  // the holes were merged into one
}

TEST(only_segments_without_allocations_can_be_removed) {
  Heap heap(16);
  heap.add_segment(1, 64);
  heap.add_segment(2, 32);
  const auto first = heap.allocate(20);  // best fit: the hole in segment 2
  REQUIRE(first.has_value());
  EXPECT_EQ(first->segment, 2);
  EXPECT_EQ(heap.largest_segment_bytes(), 64);
  EXPECT_EQ(heap.segment_bytes_free(2), 0);
  const auto free = heap.free_segments();
  REQUIRE(free.size() == 1 && free[0].segment == 1 && free[0].bytes == 64);
  heap.remove_segment(1);
  EXPECT_EQ(heap.bytes(), 32);
  EXPECT_EQ(heap.largest_segment_bytes(), 32);
  EXPECT(!heap.allocate(1).has_value());
  EXPECT(heap.free_segments().empty());
  heap.release(*first);
  EXPECT_EQ(heap.bytes_free(), 32);
  EXPECT_EQ(heap.segment_bytes_free(2), 32);
  REQUIRE(heap.free_segments().size() == 1);
  heap.remove_segment(2);
  EXPECT_EQ(heap.bytes() + heap.bytes_free() + heap.largest_segment_bytes(), 0);
}

TEST(the_free_end_of_a_segment_can_be_cut) {
  Heap heap(256);
  heap.add_segment(0, 4096);
  heap.add_segment(1, 2048);
  const auto first = heap.allocate(1024);
  REQUIRE(first && first->segment == 1);
  EXPECT_EQ(heap.free_before(1, 1024), 0);
  EXPECT_EQ(heap.free_before(1, 2048), 1024);
  EXPECT_EQ(heap.free_before(0, 2048), 0);  // inside a hole
  EXPECT_EQ(heap.free_before(0, 4096), 4096);
  heap.cut_tail(1, 512);
  EXPECT_EQ(heap.segment_bytes(1), 1536);
  EXPECT_EQ(heap.free_before(1, 1536), 512);
  EXPECT_EQ(heap.bytes(), 4096 + 1536);
  EXPECT_EQ(heap.bytes_free(), 4096 + 512);
  heap.cut_tail(1, 512);
  EXPECT_EQ(heap.free_before(1, 1024), 0);
  heap.release(*first);
  REQUIRE(heap.allocate(1024));
  EXPECT_EQ(heap.bytes_free(), 4096);
  EXPECT(heap.segments() == std::vector<int>({0, 1}));
}

TEST(a_moved_segment_keeps_its_allocations) {
  Heap one(256);
  Heap other(256);
  one.add_segment(0, 4096);
  one.add_segment(1, 2048);
  const auto first = one.allocate(4096);
  const auto second = one.allocate(512);
  REQUIRE(first && second && second->segment == 1);
  one.move_segment(1, other);
  EXPECT(!one.has_segment(1) && other.has_segment(1));
  EXPECT(one.bytes() == 4096 && one.bytes_free() == 0);
  EXPECT(other.bytes() == 2048 && other.bytes_free() == 1536);
  const auto third = other.allocate(1536);
  REQUIRE(third);
  EXPECT_EQ(third->offset, 512);
  other.release(*second);
  other.release(*third);
  EXPECT(other.allocate(2048).has_value());  // the holes were merged into one
}
