#include "data/piece_lowering.hpp"

#include <cstring>
#include <numeric>

#include "base/random.hpp"
#include "data/pieces.hpp"
#include "support/test.hpp"

using namespace tranship;
using tranship::test::Pieces;

namespace {

/// Pieces of any lengths; some follow the one before on one side or on both.
Pieces some_pieces(Random& random) {
  Pieces pieces;
  std::int64_t source = 0;
  std::int64_t target = 0;
  for (std::int64_t k = random.below(30); k > 0; --k) {
    source += random.chance(0.5) ? 0 : random.between(1, 9);
    target += random.chance(0.5) ? 0 : random.between(1, 9);
    pieces.source.push_back(source);
    pieces.target.push_back(target);
    pieces.lengths.push_back(random.chance(0.1) ? 0 : random.between(1, 40));
    source += pieces.lengths.back();
    target += pieces.lengths.back();
  }
  return pieces;
}

std::vector<std::byte> moved(std::span<const IndexedNest> nests, const std::byte* source,
                             std::vector<std::byte> target) {
  (void)for_each_run(nests, [&](const Run& run) {
    std::memcpy(target.data() + run.target_offset, source + run.source_offset,
                static_cast<std::size_t>(run.bytes));
    return true;
  });
  return target;
}

}  // namespace

TEST(pieces_become_entries_that_move_the_same_bytes) {
  Random random(3);
  int joined = 0;
  for (int round = 0; round < 3000; ++round) {
    const Pieces pieces = some_pieces(random);
    std::vector<std::byte> source(2000);
    for (auto& byte : source) byte = static_cast<std::byte>(random.next());
    std::vector<std::byte> expected(2000);
    for (std::size_t k = 0; k < pieces.lengths.size(); ++k) {
      std::memcpy(expected.data() + 7 + pieces.target[k], source.data() + 5 + pieces.source[k],
                  static_cast<std::size_t>(pieces.lengths[k]));
    }
    const std::int64_t most = random.between(1, 100);
    IndexedCopy copy;
    lower_pieces(pieces.lists(), 5, 7, most, copy);
    const std::int64_t tile_bytes = random.between(most, 300);
    copy.finish(tile_bytes, static_cast<std::size_t>(random.between(1, 9)));
    EXPECT_EQ(copy.bytes(),
              std::accumulate(pieces.lengths.begin(), pieces.lengths.end(), std::int64_t{0}));
    EXPECT(moved(copy.nests(), source.data(), std::vector<std::byte>(2000)) == expected);
    std::int64_t entries = 0;
    for (const IndexedNest& nest : copy.nests()) {
      for (const IndexedEntry& entry : nest.entries)
        EXPECT(entry.count >= 1 && entry.count <= most);
      entries += std::ssize(nest.entries);
    }
    if (entries < std::ssize(pieces.lengths)) ++joined;
    // Through a buffer, tile by tile.
    std::vector<std::byte> through(2000);
    for (std::int64_t k = 0; k < copy.tiles(); ++k) {
      EXPECT(copy.tile_bytes(k) <= tile_bytes);
      std::vector<IndexedNest> nests;
      std::vector<IndexedEntry> lists;
      copy.tile(k, nests);
      make_dense(nests, ListSide::target, lists);
      const auto buffer = moved(nests, source.data(), std::vector<std::byte>(300));
      copy.tile(k, nests);
      make_dense(nests, ListSide::source, lists);
      through = moved(nests, buffer.data(), std::move(through));
    }
    EXPECT(through == expected);
  }
  EXPECT(joined > 1000);
}

TEST(lists_with_loops_pass_through_a_buffer_as_they_are) {
  Random random(8);
  for (int round = 0; round < 2000; ++round) {
    std::vector<LoopNest> group(static_cast<std::size_t>(random.between(1, 2)));
    std::int64_t field = 0;
    for (LoopNest& nest : group) {
      nest.element_bytes = random.between(1, 4);
      nest.source_offset = nest.target_offset = field;
      field += 400;
      nest.rank = 2;
      nest.loops[0] = {3, 20, 5};
      nest.loops[1] = {4, 5, 20};
    }
    IndexedCopy copy;
    copy.begin_group(group, 80, 80, true);
    std::vector<std::int64_t> order{0, 1, 2, 3, 4};
    for (std::size_t k = 4; k > 0; --k) {
      std::swap(order[k], order[static_cast<std::size_t>(random.below(std::ssize(order)))]);
    }
    for (std::size_t k = 0; k < 5; ++k) {
      copy.add_move(order[k] * 80, static_cast<std::int64_t>(k) * 80);
    }
    copy.finish(1 << 20, 2);
    std::vector<std::byte> source(800);
    for (auto& byte : source) byte = static_cast<std::byte>(random.next());
    const auto carry = [&](std::span<const IndexedNest> nests, const std::byte* from,
                           std::vector<std::byte>& to) {
      std::vector<LoopNest> plain;
      expand(nests, plain);
      for (const LoopNest& nest : plain) {
        for (std::int64_t point = 0; point < nest.bytes() / nest.element_bytes; ++point) {
          std::int64_t rest = point;
          Run run{nest.source_offset, nest.target_offset, nest.element_bytes};
          for (int k = 0; k < nest.rank; ++k) {
            const Loop& loop = nest.loops[static_cast<std::size_t>(k)];
            run.source_offset += rest % loop.extent * loop.source_stride;
            run.target_offset += rest % loop.extent * loop.target_stride;
            rest /= loop.extent;
          }
          std::memcpy(to.data() + run.target_offset, from + run.source_offset,
                      static_cast<std::size_t>(run.bytes));
        }
      }
    };
    std::vector<std::byte> expected(800);
    carry(copy.nests(), source.data(), expected);
    std::vector<std::byte> through(800);
    for (std::int64_t k = 0; k < copy.tiles(); ++k) {
      std::vector<IndexedNest> nests;
      std::vector<IndexedEntry> lists;
      std::vector<std::byte> buffer(static_cast<std::size_t>(copy.tile_bytes(k)));
      copy.tile(k, nests);
      make_dense(nests, ListSide::target, lists);
      carry(nests, source.data(), buffer);
      copy.tile(k, nests);
      make_dense(nests, ListSide::source, lists);
      carry(nests, buffer.data(), through);
    }
    EXPECT(through == expected);
  }
}
