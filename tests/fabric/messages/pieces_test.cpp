#include "fabric/messages/pieces.hpp"

#include <map>
#include <random>
#include <vector>

#include "fabric/helpers.hpp"
#include "fabric/messages/runs.hpp"

using namespace tranship;
using namespace tranship::fabric;

namespace {

/// Returns the source byte of each target byte, as the pieces move them; fails if a byte is moved
/// twice.
std::map<std::int64_t, std::int64_t> moved_by(std::span<const LoopNest> nests) {
  std::map<std::int64_t, std::int64_t> moved;
  for (LoopNest nest : nests) {
    std::vector<std::pair<std::int64_t, std::int64_t>> points{
        {nest.target_offset, nest.source_offset}};
    for (std::size_t k = 0; k < static_cast<std::size_t>(nest.rank); ++k) {
      std::vector<std::pair<std::int64_t, std::int64_t>> more;
      for (const auto& [to, from] : points) {
        for (std::int64_t j = 0; j < nest.loops[k].extent; ++j) {
          more.emplace_back(to + j * nest.loops[k].target_stride,
                            from + j * nest.loops[k].source_stride);
        }
      }
      points.swap(more);
    }
    for (const auto& [to, from] : points) {
      for (std::int64_t j = 0; j < nest.element_bytes; ++j) {
        EXPECT(moved.emplace(to + j, from + j).second);
      }
    }
  }
  return moved;
}

LoopNest random_nest(std::mt19937& random, std::int64_t target_offset) {
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  LoopNest nest;
  nest.element_bytes = pick(1, 3) == 1 ? pick(1, 200) : pick(1, 8);
  nest.source_offset = 100000;
  nest.target_offset = target_offset;
  nest.rank = pick(0, 4);
  std::int64_t target = nest.element_bytes;
  for (std::size_t k = 0; k < static_cast<std::size_t>(nest.rank); ++k) {
    const std::int64_t extent = pick(1, 7);
    nest.loops[k] = {extent, pick(-300, 300), target + pick(0, 3)};
    target = nest.loops[k].target_stride * extent;
  }
  for (std::size_t k = 1; k < static_cast<std::size_t>(nest.rank); ++k) {
    std::swap(nest.loops[k], nest.loops[static_cast<std::size_t>(pick(0, static_cast<int>(k)))]);
  }
  return nest;
}

}  // namespace

TEST(pieces_move_each_byte_once_and_fit) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    const std::vector<LoopNest> nests{random_nest(random, 0), random_nest(random, 10'000'000)};
    PieceCursor::Options options;
    options.piece_bytes = 1 << (round % 9);
    options.run_bytes = 1 << (round % 5);
    std::vector<LoopNest> pieces;
    for (PieceCursor cursor(nests, options); !cursor.finished(); cursor.advance()) {
      EXPECT(cursor.piece().bytes() <= options.piece_bytes);
      pieces.push_back(cursor.piece());
    }
    EXPECT(moved_by(pieces) == moved_by(nests));
  }
}

TEST(pieces_of_nothing_and_of_broadcasts) {
  LoopNest nothing;
  nothing.element_bytes = 4;
  nothing.rank = 1;
  nothing.loops[0] = {0, 4, 4};
  LoopNest broadcast;
  broadcast.element_bytes = 4;
  broadcast.rank = 1;
  broadcast.loops[0] = {100, 0, 4};
  const std::vector<LoopNest> nests{nothing, broadcast, nothing};
  std::int64_t bytes = 0;
  for (PieceCursor cursor(nests, {64, 1024}); !cursor.finished(); cursor.advance()) {
    bytes += cursor.piece().bytes();
  }
  EXPECT_EQ(bytes, 400);
  EXPECT(PieceCursor({&nothing, 1}, {64, 1024}).finished());
}

TEST(pieces_of_a_transpose_have_long_runs_on_both_sides) {
  LoopNest nest;
  nest.element_bytes = 4;
  nest.rank = 2;
  nest.loops[0] = {8192, 8192 * 4, 4};
  nest.loops[1] = {8192, 4, 8192 * 4};
  const PieceCursor cursor({&nest, 1}, {256 * 1024, 1024});
  EXPECT_EQ(cursor.piece().bytes(), 256 * 1024);
  EXPECT(cursor.piece().loops[0].extent * 4 >= 1024);
  EXPECT(cursor.piece().loops[1].extent * 4 >= 1024);
}

TEST(a_list_goes_run_by_run_in_pieces_of_any_size) {
  std::mt19937 random(11);
  const auto below = [&](std::int64_t end) { return static_cast<std::int64_t>(random()) % end; };
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::vector<IndexedEntry>> entries(1 + random() % 3);
    std::vector<IndexedNest> lists;
    for (auto& list : entries) {
      LoopNest element;
      element.element_bytes = 1 + below(9);
      element.source_offset = below(50);
      const bool touch = random() % 2 == 0;
      const std::int64_t step = touch ? element.element_bytes : element.element_bytes + below(3);
      for (std::size_t k = random() % 5; k > 0; --k) {
        list.push_back({below(90), below(90), 1 + below(6)});
      }
      lists.push_back({element, step, touch ? step : step + below(2), true, list});
    }
    std::vector<LoopNest> expected;
    expand(lists, expected);
    RunCursor cursor(lists);
    std::vector<Run> taken;
    while (!cursor.finished()) {
      const std::int64_t most = 1 + below(20);
      taken.push_back(cursor.take(most));
      EXPECT(taken.back().bytes >= 1 && taken.back().bytes <= most);
    }
    // The same bytes in the same order.
    std::vector<std::pair<std::int64_t, std::int64_t>> bytes;
    for (const Run& run : taken) {
      for (std::int64_t k = 0; k < run.bytes; ++k) {
        bytes.emplace_back(run.source_offset + k, run.target_offset + k);
      }
    }
    std::size_t at = 0;
    for (const LoopNest& nest : expected) {
      (void)for_each_run(nest, [&](const Run& run) {
        for (std::int64_t k = 0; k < run.bytes; ++k, ++at) {
          EXPECT(at < bytes.size() &&
                 bytes[at] == std::pair(run.source_offset + k, run.target_offset + k));
        }
        return true;
      });
    }
    EXPECT_EQ(at, bytes.size());
  }
}
