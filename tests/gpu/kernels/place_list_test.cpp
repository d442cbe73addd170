// Lists of places on the CPU: the kernel's body, compared with walks of all entries.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/random.hpp"
#include "data/indexed_nest.hpp"
#include "gpu/kernels/launch.hpp"
#include "gpu/kernels/nests.hpp"
#include "support/test.hpp"

namespace tranship::gpu {
namespace {

/// A list, whose nest refers to its own entries.
struct Listed {
  IndexedNest nest;
  std::vector<IndexedEntry> entries;
  std::int64_t source_bytes = 0;
  std::int64_t target_bytes = 0;
};

enum class Ends { to_dense, from_dense, neither };

/// Returns a random order of the numbers below `count`.
std::vector<std::int64_t> shuffled(std::int64_t count, Random& random) {
  std::vector<std::int64_t> order;
  for (std::int64_t k = 0; k < count; ++k) order.push_back(k);
  for (std::int64_t k = count - 1; k > 0; --k) {
    std::swap(order[static_cast<std::size_t>(k)],
              order[static_cast<std::size_t>(random.between(0, k))]);
  }
  return order;
}

/// Makes a list of entries of up to `moves_most` moves, each of an inner loop of some elements, and
/// all of it repeated along outer loops. Slots of entries are as long as the longest.
void make(Listed& list, Ends ends, std::int64_t moves_most, Random& random) {
  static constexpr std::int64_t sizes[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 80};
  LoopNest& nest = list.nest.nest;
  nest.element_bytes = sizes[random.below(std::size(sizes))];
  const std::int64_t inner = random.chance(0.3) ? random.between(2, 4) : 1;
  const std::int64_t source_gap = nest.element_bytes * random.between(1, 3);
  const std::int64_t target_gap =
      ends == Ends::to_dense ? nest.element_bytes : nest.element_bytes * random.between(1, 2);
  if (inner > 1) add(nest, inner, source_gap, target_gap);
  const bool touch = inner == 1 && random.chance(0.7);
  list.nest.source_step = touch ? nest.element_bytes : inner * source_gap;
  list.nest.target_step = touch ? nest.element_bytes : inner * target_gap;
  const std::int64_t source_slot = list.nest.source_step * moves_most;
  const std::int64_t target_slot = list.nest.target_step * moves_most;
  const std::int64_t count = random.between(64, 200);
  const auto from = shuffled(count + 7, random);
  const auto to = shuffled(count + 5, random);
  std::int64_t source_dense = 0, target_dense = 0;
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t moves = random.between(1, moves_most);
    const auto at = static_cast<std::size_t>(k);
    list.entries.push_back({ends == Ends::from_dense ? source_dense : from[at] * source_slot,
                            ends == Ends::to_dense ? target_dense : to[at] * target_slot, moves});
    source_dense += moves * list.nest.source_step;
    target_dense += moves * list.nest.target_step;
  }
  list.source_bytes = (count + 7) * source_slot;
  list.target_bytes = (count + 5) * target_slot;
  for (std::int64_t loops = random.below(4); loops > 0; --loops) {
    const std::int64_t extent = random.between(2, 3);
    add(nest, extent, list.source_bytes, list.target_bytes);
    list.source_bytes *= extent;
    list.target_bytes *= extent;
  }
  list.nest.entries = list.entries;
}

/// Whether the kernels move what walks of all lists move, and touch nothing else.
bool moved_as_walked(std::vector<Listed>& lists, std::size_t& planned, Random& random) {
  std::int64_t source_bytes = 0, target_bytes = guard_bytes;
  for (Listed& list : lists) {
    list.nest.nest.source_offset = source_bytes;
    list.nest.nest.target_offset = target_bytes;
    source_bytes += list.source_bytes;
    target_bytes += list.target_bytes + guard_bytes;
  }
  Memory source(source_bytes, random.chance(0.3) ? random.below(16) : 0);
  const std::int64_t shift = random.chance(0.3) ? random.below(16) : 0;
  Memory target(target_bytes, shift);
  Memory expected(target_bytes, shift);
  for (std::int64_t i = 0; i < source_bytes; ++i) source.data()[i] = std::byte(random.next());
  PlaceLists made;
  const bool often = random.chance(0.5);
  for (const Listed& list : lists) {
    if (!plan_places(list.nest, source.data(), target.data(), often, made)) continue;
    ++planned;
    for (const IndexedEntry& entry : list.entries) {
      walk(nest_of(list.nest, entry), [&](std::int64_t from, std::int64_t to) {
        const auto bytes = nest_of(list.nest, entry).element_bytes;
        std::memcpy(expected.data() + to, source.data() + from, static_cast<std::size_t>(bytes));
      });
    }
  }
  const auto* table = reinterpret_cast<const std::byte*>(made.places.data());
  for (std::size_t first = 0; first < made.lists.size(); first += place_lists_max) {
    run_places_on_host(launch_of(made, first, table), source.data(), target.data());
  }
  return target.equals(expected, target_bytes);
}

TEST(places_move_what_their_lists_name) {
  std::size_t planned = 0, given = 0;
  for (std::uint64_t seed = 0; seed < test::seed_count(1500); ++seed) {
    Random random(seed);
    std::vector<Listed> lists(static_cast<std::size_t>(random.between(1, 3)));
    for (Listed& list : lists) {
      make(list, static_cast<Ends>(random.below(3)), random.chance(0.5) ? 1 : 4, random);
    }
    given += lists.size();
    EXPECT_EQ(moved_as_walked(lists, planned, random) ? seed : ~seed, seed);
  }
  EXPECT(planned > given * 3 / 4);
}

TEST(many_lists_of_places_take_several_launches) {
  Random random(3);
  std::vector<Listed> lists(static_cast<std::size_t>(2 * place_lists_max + 1));
  for (Listed& list : lists) make(list, Ends::to_dense, 1, random);
  std::size_t planned = 0;
  EXPECT(moved_as_walked(lists, planned, random));
  EXPECT(planned > static_cast<std::size_t>(place_lists_max));
}

/// A list of `count` elements that lie `distance` bytes apart in the source, last first.
Listed backwards(std::int64_t count, std::int64_t bytes, std::int64_t distance) {
  Listed list;
  list.nest.nest.element_bytes = bytes;
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t from = k % 2 == 0 ? count - 1 - k : count + k;
    list.entries.push_back({from * distance, k * bytes, 1});
  }
  list.nest.entries = list.entries;
  return list;
}

TEST(a_dense_side_has_no_table) {
  PlaceLists made;
  const Listed list = backwards(100, 12, 48);
  REQUIRE(plan_places(list.nest, nullptr, nullptr, false, made));
  EXPECT_EQ(made.places.size(), std::size_t{100});
  EXPECT_EQ(made.lists[0].target.table, -1);
  EXPECT_EQ(made.lists[0].target.distance, 12);
  EXPECT_EQ(made.lists[0].unit_bytes, 4);
}

TEST(places_that_are_written_often_are_sorted) {
  Listed list = backwards(100, 12, 48);
  for (IndexedEntry& entry : list.entries) std::swap(entry.source_offset, entry.target_offset);
  PlaceLists once;
  REQUIRE(plan_places(list.nest, nullptr, nullptr, false, once));
  EXPECT_EQ(once.places.size(), std::size_t{100});
  PlaceLists often;
  REQUIRE(plan_places(list.nest, nullptr, nullptr, true, often));
  REQUIRE(often.places.size() == 200);
  EXPECT(std::is_sorted(often.places.begin() + often.lists[0].target.table,
                        often.places.begin() + often.lists[0].target.table + 100));
}

TEST(places_too_far_apart_for_a_table_are_not_sorted) {
  Listed list = backwards(100, 12, 48);
  for (IndexedEntry& entry : list.entries) {
    entry = {entry.target_offset << 28, entry.source_offset, 1};  // equal distances of 3 GiB
  }
  PlaceLists made;
  REQUIRE(plan_places(list.nest, nullptr, nullptr, true, made));
  EXPECT_EQ(made.places.size(), std::size_t{100});
  EXPECT_EQ(made.lists[0].source.table, -1);
  EXPECT_EQ(made.lists[0].source.distance, std::int64_t{12} << 28);
}

TEST(runs_of_unequal_lengths_are_moved_in_units_that_divide_all) {
  Listed list;
  list.nest.nest.element_bytes = list.nest.source_step = list.nest.target_step = 1;
  std::int64_t end = 0;
  for (std::int64_t k = 0; k < 100; ++k) {
    const std::int64_t count = k % 2 == 0 ? 8 : 24;
    list.entries.push_back({k * 7 % 100 * 64, end, count});
    end += count;
  }
  list.nest.entries = list.entries;
  PlaceLists made;
  REQUIRE(plan_places(list.nest, nullptr, nullptr, false, made));
  EXPECT_EQ(made.lists[0].unit_bytes, 8);
  EXPECT_EQ(made.places.size(), std::size_t{200});
}

TEST(tables_of_more_bytes_than_pieces_take_are_not_made) {
  Listed list;
  list.nest.nest.element_bytes = list.nest.source_step = list.nest.target_step = 1;
  for (std::int64_t k = 0; k < 100; ++k) {
    list.entries.push_back({k * 7 % 100 * 64, k * 3 % 100 * 64, k == 50 ? 15 : 16});
  }
  list.nest.entries = list.entries;
  PlaceLists made;
  EXPECT(!plan_places(list.nest, nullptr, nullptr, false, made));
}

TEST(nests_of_many_elements_are_left_to_other_kernels) {
  Listed list = backwards(100, 4, 4 * 64 * 8);
  for (IndexedEntry& entry : list.entries) entry.target_offset *= 64;
  add(list.nest.nest, 8, 4 * 64, 4);
  add(list.nest.nest, 8, 4, 32);
  PlaceLists made;
  EXPECT(!plan_places(list.nest, nullptr, nullptr, false, made));
}

TEST(nothing_is_planned_of_empty_loops) {
  Listed list = backwards(100, 12, 48);
  add(list.nest.nest, 0, 4800, 1200);
  PlaceLists made;
  EXPECT(!plan_places(list.nest, nullptr, nullptr, true, made));
}

TEST(long_runs_short_lists_and_far_places_are_left_to_other_kernels) {
  PlaceLists made;
  const Listed few = backwards(20, 8, 16);
  EXPECT(!plan_places(few.nest, nullptr, nullptr, false, made));
  const Listed runs = backwards(200, 256, 512);
  EXPECT(!plan_places(runs.nest, nullptr, nullptr, false, made));
  const Listed far = backwards(200, 8, std::int64_t{1} << 28);
  EXPECT(!plan_places(far.nest, nullptr, nullptr, false, made));
  EXPECT(made.lists.empty() && made.places.empty());
  const Listed near = backwards(200, 8, std::int64_t{1} << 26);
  EXPECT(plan_places(near.nest, nullptr, nullptr, false, made));
}

}  // namespace
}  // namespace tranship::gpu
