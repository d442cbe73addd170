// The laws of indexed nests: they equal a copy of each entry, and coalescing keeps the bytes.
#include "data/indexed_nest.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/random.hpp"
#include "channels/sim/sim_channel.hpp"
#include "support/test.hpp"

namespace tranship {
namespace {

using Bytes = std::vector<std::byte>;

/// Pages of a pool on each side: a nest for page 0, and lists of pages to copy.
struct Pages {
  LoopNest nest;
  std::int64_t source_step = 0;
  std::int64_t target_step = 0;
  std::int64_t source_bytes = 0;
  std::int64_t target_bytes = 0;
  std::vector<std::int64_t> source;
  std::vector<std::int64_t> target;
};

/// Draws a page of up to two loops, steps with or without gaps, and lists with runs in them.
Pages draw_pages(Random& random) {
  Pages pages;
  LoopNest& nest = pages.nest;
  nest.element_bytes = random.between(1, 9);
  std::int64_t source_bytes = nest.element_bytes;
  std::int64_t target_bytes = nest.element_bytes;
  for (nest.rank = 0; nest.rank < 2 && random.chance(0.5); ++nest.rank) {
    const std::int64_t extent = random.between(2, 4);
    source_bytes += random.below(2) * random.below(4);
    target_bytes += random.below(2) * random.below(4);
    nest.loops[static_cast<std::size_t>(nest.rank)] = {extent, source_bytes, target_bytes};
    source_bytes *= extent;
    target_bytes *= extent;
  }
  nest.source_offset = random.below(8);
  nest.target_offset = random.below(8);
  pages.source_step = source_bytes + (random.chance(0.5) ? random.below(5) : 0);
  pages.target_step = target_bytes + (random.chance(0.5) ? random.below(5) : 0);
  const std::int64_t count = random.between(1, 24);
  pages.source_bytes = 8 + count * pages.source_step + 8;
  pages.target_bytes = 8 + count * pages.target_step + 8;
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  pages.source = pages.target = order;
  const auto swaps = random.below(4);
  for (std::int64_t k = 0; k < swaps; ++k) {
    std::swap(pages.source[static_cast<std::size_t>(random.below(count))],
              pages.source[static_cast<std::size_t>(random.below(count))]);
    std::swap(pages.target[static_cast<std::size_t>(random.below(count))],
              pages.target[static_cast<std::size_t>(random.below(count))]);
  }
  const auto moved = static_cast<std::size_t>(random.between(0, count));
  pages.source.resize(moved);
  pages.target.resize(moved);
  return pages;
}

Bytes random_bytes(Random& random, std::int64_t count) {
  Bytes bytes(static_cast<std::size_t>(count));
  for (auto& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

/// Returns the content of the target after each page was copied by itself.
Bytes copied_one_by_one(const Pages& pages, const Bytes& source, Bytes target) {
  for (std::size_t k = 0; k < pages.source.size(); ++k) {
    LoopNest nest = pages.nest;
    nest.source_offset += pages.source[k] * pages.source_step;
    nest.target_offset += pages.target[k] * pages.target_step;
    move_bytes({&nest, 1}, source.data(), target.data());
  }
  return target;
}

IndexedCopy lowered(const Pages& pages, std::int64_t count_max) {
  IndexedCopy copy;
  copy.begin_group({&pages.nest, 1}, pages.source_step, pages.target_step, true);
  for (std::size_t k = 0; k < pages.source.size(); ++k) {
    copy.add_move(pages.source[k] * pages.source_step, pages.target[k] * pages.target_step,
                  count_max);
  }
  return copy;
}

Bytes copied(std::span<const IndexedNest> nests, const Bytes& source, Bytes target) {
  std::vector<LoopNest> plain;
  expand(nests, plain);
  move_bytes(plain, source.data(), target.data());
  return target;
}

TEST(an_indexed_nest_equals_its_copies_entry_by_entry) {
  for (std::uint64_t seed = 0; seed < test::seed_count(4000); ++seed) {
    Random random(seed);
    const Pages pages = draw_pages(random);
    const Bytes source = random_bytes(random, pages.source_bytes);
    const Bytes target = random_bytes(random, pages.target_bytes);
    const Bytes expected = copied_one_by_one(pages, source, target);
    for (const std::int64_t count_max : {0, 1, 3}) {
      IndexedCopy copy = lowered(pages, count_max);
      copy.finish(1 << 20, 1024);
      REQUIRE(copied(copy.nests(), source, target) == expected);
      const auto moved = static_cast<std::int64_t>(pages.source.size()) * pages.nest.bytes();
      EXPECT_EQ(copy.bytes(), moved);
      EXPECT_EQ(copy.nests()[0].bytes(), moved);
    }
  }
}

TEST(neighbouring_entries_are_one_and_others_are_not) {
  const std::vector<std::int64_t> source{3, 4, 5, 9, 1, 2};
  const std::vector<std::int64_t> target{0, 1, 2, 3, 8, 9};
  LoopNest nest;
  nest.element_bytes = 16;
  IndexedCopy copy;
  copy.begin_group({&nest, 1}, 16, 16, true);
  for (std::size_t k = 0; k < source.size(); ++k) copy.add_move(source[k] * 16, target[k] * 16);
  copy.finish(1 << 20, 1024);
  const auto entries = copy.nests()[0].entries;
  REQUIRE(entries.size() == 3);
  EXPECT((entries[0] == IndexedEntry{48, 0, 3}));
  EXPECT((entries[1] == IndexedEntry{144, 48, 1}));
  EXPECT((entries[2] == IndexedEntry{16, 128, 2}));
  const LoopNest run = nest_of(copy.nests()[0], entries[0]);
  EXPECT_EQ(run.rank, 0);
  EXPECT_EQ(run.element_bytes, 48);
}

TEST(moves_of_several_allocations_are_plain_nests_of_their_own) {
  LoopNest nest;
  nest.element_bytes = 16;
  IndexedCopy copy;
  copy.begin_group({&nest, 1}, 16, 16, false);
  for (const std::int64_t place : {3, 4, 5, 9}) copy.add_move(place * 16, place * 16 + 160);
  copy.finish(1 << 20, 1024);
  EXPECT_EQ(copy.nests()[0].entries.size(), 2u);
  EXPECT_EQ(copy.nests()[0].moves(), 4);
  std::vector<LoopNest> plain;
  expand(copy.nests(), plain);
  REQUIRE(plain.size() == 4);
  EXPECT(std::all_of(plain.begin(), plain.end(),
                     [](const LoopNest& one) { return one.rank == 0 && one.element_bytes == 16; }));
  EXPECT_EQ(plain[2].source_offset, 5 * 16);
  EXPECT_EQ(plain[3].target_offset, 9 * 16 + 160);
}

TEST(moves_that_run_on_make_the_outer_loop_longer) {
  LoopNest nest;
  nest.element_bytes = 4;
  nest.rank = 1;
  nest.loops[0] = {8, 12, 4};
  const LoopNest longer = nest_of({nest, 96, 32, true, {}}, {0, 0, 5});
  EXPECT_EQ(longer.rank, 1);
  EXPECT_EQ(longer.loops[0].extent, 40);
  const LoopNest nested = nest_of({nest, 100, 32, true, {}}, {0, 0, 5});
  EXPECT_EQ(nested.rank, 2);
  EXPECT((nested.loops[1] == Loop{5, 100, 32}));
}

TEST(tiles_are_bounded_and_together_are_the_copy) {
  for (std::uint64_t seed = 0; seed < test::seed_count(2000); ++seed) {
    Random random(seed);
    const Pages pages = draw_pages(random);
    const Bytes source = random_bytes(random, pages.source_bytes);
    Bytes target = random_bytes(random, pages.target_bytes);
    const Bytes expected = copied_one_by_one(pages, source, target);
    const std::int64_t moves_max = random.between(1, 5);
    const std::int64_t bytes_max = moves_max * pages.nest.bytes();
    IndexedCopy copy = lowered(pages, moves_max);
    copy.finish(bytes_max, 3);
    std::vector<IndexedNest> nests;
    std::int64_t bytes = 0;
    for (std::int64_t tile = 0; tile < copy.tiles(); ++tile) {
      copy.tile(tile, nests);
      REQUIRE(nests.size() == 1 && nests[0].entries.size() <= 3);
      EXPECT(copy.tile_bytes(tile) <= bytes_max);
      EXPECT_EQ(nests[0].bytes(), copy.tile_bytes(tile));
      bytes += copy.tile_bytes(tile);
      target = copied(nests, source, std::move(target));
    }
    EXPECT_EQ(bytes, copy.bytes());
    REQUIRE(target == expected);
  }
}

TEST(groups_have_lists_of_their_own_and_clear_forgets_them) {
  LoopNest first;
  first.element_bytes = 4;
  LoopNest second;
  second.element_bytes = 8;
  IndexedCopy copy;
  for (int round = 0; round < 2; ++round) {
    copy.clear();
    copy.begin_group({&first, 1}, 4, 4, true);
    copy.add_move(0, 0);
    copy.add_move(8, 8);
    copy.begin_group({&second, 1}, 8, 8, true);
    copy.add_move(16, 16);
    copy.finish(100, 10);
    REQUIRE(copy.nests().size() == 2);
    EXPECT_EQ(copy.nests()[0].entries.size(), 2u);
    EXPECT_EQ(copy.nests()[1].entries.size(), 1u);
    EXPECT_EQ(copy.tiles(), 2);
    EXPECT_EQ(copy.bytes(), 16);
  }
}

}  // namespace
}  // namespace tranship
