// The bodies of the GPU's conversion kernels, run on the CPU and compared with a naive walk of the
// nest.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "gpu/kernels/direct_body.hpp"
#include "gpu/kernels/kernel_plan.hpp"
#include "gpu/kernels/launch.hpp"
#include "gpu/kernels/nests.hpp"
#include "support/test.hpp"

namespace tranship::gpu {
namespace {

/// Returns whether the kernels move what a naive walk moves, and touch nothing else.
bool moves_as_walked(const Case& test, Random& random, KernelKind* kind = nullptr,
                     const KernelTuning& tuning = {}) {
  const LoopNest& nest = test.nest;
  const std::int64_t source_bytes = reach(nest, true);
  const std::int64_t target_bytes = reach(nest, false) + 2 * guard_bytes;
  Memory source(source_bytes, test.source_shift);
  Memory target(target_bytes, test.target_shift);
  Memory expected(target_bytes, test.target_shift);
  for (std::int64_t i = 0; i < source_bytes; ++i) source.data()[i] = std::byte(random.next());
  walk(nest, [&](std::int64_t from, std::int64_t to) {
    std::memcpy(expected.data() + guard_bytes + to, source.data() + from,
                static_cast<std::size_t>(nest.element_bytes));
  });
  std::vector<KernelPlan> plans;
  plan_kernels(nest, source.data(), target.data() + guard_bytes, plans, tuning);
  for (const KernelPlan& plan : plans) {
    run_on_host(plan, source.data(), target.data() + guard_bytes);
  }
  if (kind != nullptr && !plans.empty()) *kind = plans[0].kind;
  return target.equals(expected, target_bytes);
}

TEST(random_nests_move_as_walked) {
  int kinds[7] = {};
  for (std::uint64_t seed = 0; seed < 6000; ++seed) {
    Random random(seed);
    const Case test = random_case(random);
    KernelKind kind = KernelKind::rows;
    EXPECT_EQ(moves_as_walked(test, random, &kind, {.tiled_bytes = 0}) ? seed : ~seed, seed);
    ++kinds[static_cast<int>(kind)];
  }
  // One nest alone is never moved as fields of records.
  kinds[static_cast<int>(KernelKind::records)] = 101;
  for (const int count : kinds) EXPECT(count > 100);
}

/// Two dimensions of random extents in several sizes: full boxes and both kinds of edges.
TEST(transposes_with_edges_move_as_walked) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed + 77);
    Case test;
    const std::int64_t bytes = std::int64_t{1} << random.below(5);
    const std::int64_t step = random.chance(0.7) ? std::max<std::int64_t>(1, 16 / bytes) : 1;
    const std::int64_t x = random.between(1, 400 / step) * step;
    const std::int64_t y = random.between(1, 400 / step) * step;
    test.nest.element_bytes = bytes;
    add(test.nest, x, bytes * y, bytes);
    add(test.nest, y, bytes, bytes * x);
    EXPECT_EQ(moves_as_walked(test, random) ? seed : ~seed, seed);
  }
}

TEST(boxes_of_all_sizes_and_orders_move_as_walked) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed + 9000);
    Case test = random_case(random);
    if (seed % 2 == 0) {
      test = Case{};
      test.nest.element_bytes = std::int64_t{1} << random.below(5);
      add(test.nest, 256, 128 * test.nest.element_bytes, test.nest.element_bytes);
      add(test.nest, 128, test.nest.element_bytes, 256 * test.nest.element_bytes);
    }
    KernelTuning tuning;
    tuning.box_bytes = std::int64_t{1024} << random.below(6);
    tuning.direct_box_bytes = std::int64_t{256} << random.below(8);
    tuning.short_blocks = random.below(64);
    tuning.group_boxes = random.below(5);
    EXPECT_EQ(moves_as_walked(test, random, nullptr, tuning) ? seed : ~seed, seed);
  }
}

TEST(records_and_columns_move_as_walked) {
  for (std::int64_t fields = 2; fields <= 17; ++fields) {
    for (std::int64_t bytes = 1; bytes <= 16; bytes *= 2) {
      for (const std::int64_t count : {std::int64_t{31}, std::int64_t{4096}, std::int64_t{7001}}) {
        Random random(static_cast<std::uint64_t>(fields * 1000 + bytes * 100 + count));
        Case split, joined;
        split.nest.element_bytes = joined.nest.element_bytes = bytes;
        add(split.nest, count, fields * bytes, bytes);
        add(split.nest, fields, bytes, count * bytes);
        add(joined.nest, fields, count * bytes, bytes);
        add(joined.nest, count, bytes, fields * bytes);
        EXPECT(moves_as_walked(split, random));
        EXPECT(moves_as_walked(joined, random));
      }
    }
  }
}

/// Records of random fields, as one nest for each field: `planes` times `rows` times `columns`
/// records, whose columns are in the order of the records or (`across`) with rows and columns
/// exchanged.
struct RecordShape {
  std::vector<std::int64_t> widths;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t row_gap = 0;
  std::int64_t planes = 1;
  bool to_columns = true;
  bool across = false;
};

GroupCase records_of(const RecordShape& shape) {
  GroupCase test;
  std::int64_t record = 0;
  for (const std::int64_t width : shape.widths) record += width;
  const std::int64_t row = record * shape.columns + shape.row_gap;
  std::int64_t record_at = 0, column_at = 0;
  for (const std::int64_t width : shape.widths) {
    LoopNest nest;
    nest.element_bytes = width;
    const std::int64_t count = shape.rows * shape.columns;
    const auto loop = [&](std::int64_t extent, std::int64_t in_records, std::int64_t in_columns) {
      add(nest, extent, shape.to_columns ? in_records : in_columns,
          shape.to_columns ? in_columns : in_records);
    };
    loop(shape.columns, record, shape.across ? width * shape.rows : width);
    loop(shape.rows, row, shape.across ? width : width * shape.columns);
    loop(shape.planes, row * shape.rows, width * count);
    (shape.to_columns ? nest.source_offset : nest.target_offset) = record_at;
    (shape.to_columns ? nest.target_offset : nest.source_offset) = column_at;
    record_at += width;
    column_at += width * count * shape.planes;
    test.nests.push_back(nest);
  }
  return test;
}

RecordShape random_records(Random& random) {
  static constexpr std::int64_t widths[] = {1, 2, 4, 8, 2, 4, 8, 16, 3, 6, 12, 24, 5};
  RecordShape shape;
  const std::int64_t fields = random.between(2, 16);
  const bool usual = random.chance(0.5);
  for (std::int64_t k = 0; k < fields; ++k) {
    shape.widths.push_back(widths[random.below(usual ? 7 : std::size(widths))]);
  }
  shape.across = random.chance(0.4);
  shape.to_columns = random.chance(0.5);
  shape.columns = random.between(1, shape.across ? 150 : 900);
  shape.rows = random.between(1, shape.across ? 150 : 3);
  shape.planes = random.chance(0.2) ? 2 : 1;
  if (random.chance(0.2)) shape.row_gap = random.below(40);
  return shape;
}

TEST(fields_of_records_move_together_as_walked) {
  int together = 0;
  std::vector<KernelPlan> plans;
  for (std::uint64_t seed = 0; seed < 2500; ++seed) {
    Random random(seed + 31337);
    const RecordShape shape = random_records(random);
    GroupCase test = records_of(shape);
    if (random.chance(0.4)) test.source_shift = random.below(64);
    if (random.chance(0.4)) test.target_shift = random.below(64);
    // A field may be left out; then its bytes of the records must not be touched.
    if (random.chance(0.2)) test.nests.erase(test.nests.begin() + random.below(2));
    const KernelTuning tuning{.box_bytes = std::int64_t{2048} << random.below(5)};
    EXPECT_EQ(moves_as_walked(test, random, plans, tuning) ? seed : ~seed, seed);
    together += plans.size() == 1 ? 1 : 0;
  }
  EXPECT(together > 1500);
}

/// Boxes of arrays of bytes: rows that begin at any offset on both sides.
TEST(misaligned_rows_move_as_walked) {
  int shifted = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Random random(seed + 5);
    Case test;
    const std::int64_t bytes = random.between(32, seed < 10 ? 40'000 : 1500);
    const std::int64_t rows = random.between(1, 20), planes = random.between(1, 3);
    test.nest.element_bytes = bytes;
    const std::int64_t from = bytes + random.below(50), to = bytes + random.below(50);
    add(test.nest, rows, from, to);
    add(test.nest, planes, from * rows, to * rows);
    test.source_shift = random.below(33);
    test.target_shift = random.below(33);
    KernelKind kind = KernelKind::rows;
    const KernelTuning tuning{.direct_box_bytes = std::int64_t{256} << random.below(8),
                              .shifted_rows = std::int64_t{1} << random.below(9)};
    EXPECT_EQ(moves_as_walked(test, random, &kind, tuning) ? seed : ~seed, seed);
    shifted += kind == KernelKind::shifted ? 1 : 0;
  }
  EXPECT(shifted > 100);
}

/// Records into records: fields in another order, with gaps between, or in blocks of records.
TEST(records_move_into_other_records_as_walked) {
  int together = 0;
  std::vector<KernelPlan> plans;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    Random random(seed + 99);
    const std::vector<std::int64_t> widths = random_records(random).widths;
    const std::int64_t block = random.chance(0.5) ? 1 : std::int64_t{1} << random.between(1, 3);
    const std::int64_t count = random.between(1, 1500);
    // each field is padded to a multiple of this in the source
    const std::int64_t room = random.chance(0.5) ? 8 : 1;
    std::int64_t source_record = 0, target_record = 0;
    for (const std::int64_t width : widths) source_record += (width + room - 1) / room * room;
    GroupCase test;
    std::int64_t from = source_record, to = 0;
    for (const std::int64_t width : widths) {
      from -= (width + room - 1) / room * room;  // the target's last field is the source's first
      LoopNest nest;
      nest.element_bytes = width;
      nest.source_offset = from;
      nest.target_offset = to;
      add(nest, block, source_record, width);
      test.nests.push_back(nest);
      to += width * block;
      if (random.chance(0.2)) to += random.below(4);
    }
    target_record = to;
    for (LoopNest& nest : test.nests) add(nest, count, source_record * block, target_record);
    if (random.chance(0.4)) test.source_shift = random.below(64);
    if (random.chance(0.4)) test.target_shift = random.below(64);
    EXPECT_EQ(moves_as_walked(test, random, plans) ? seed : ~seed, seed);
    together += plans.size() == 1 ? 1 : 0;
  }
  EXPECT(together > 1000);
}

/// Rows of odd lengths at odd addresses: vectors of both sides are misaligned.
TEST(misaligned_transposes_move_as_walked) {
  int misaligned = 0;
  for (std::uint64_t seed = 0; seed < 1200; ++seed) {
    Random random(seed + 4242);
    Case test;
    static constexpr std::int64_t sizes[] = {1, 2, 4, 8, 16, 12, 3, 6, 48};
    const std::int64_t bytes = sizes[random.below(std::size(sizes))];
    const std::int64_t longest = seed < 100 ? 500 : 130;
    const std::int64_t x = random.between(1, longest), y = random.between(1, longest);
    const std::int64_t z = random.chance(0.2) ? random.between(2, 3) : 1;
    const std::int64_t gap = random.chance(0.3) ? random.below(5) * bytes : 0;
    test.nest.element_bytes = bytes;
    add(test.nest, x, bytes * y + gap, bytes);
    add(test.nest, y, bytes, bytes * x + gap);
    add(test.nest, z, (bytes * y + gap) * x, (bytes * x + gap) * y);
    test.source_shift = random.below(33);
    test.target_shift = random.below(33);
    KernelKind kind = KernelKind::rows;
    const KernelTuning tuning{.box_bytes = std::int64_t{4096} << random.below(4), .tiled_bytes = 0};
    EXPECT_EQ(moves_as_walked(test, random, &kind, tuning) ? seed : ~seed, seed);
    misaligned += kind == KernelKind::tile || kind == KernelKind::table ? 1 : 0;
  }
  std::printf("%d transposes in tiles\n", misaligned);
  EXPECT(misaligned > 150);
}

/// Returns a nest between two arrays whose dimensions lie in random orders, parts of larger arrays
/// with steps and reversed dimensions included.
Case random_transpose(Random& random) {
  Case test;
  static constexpr std::int64_t sizes[] = {1, 2, 4, 8, 16, 1, 2, 4, 8, 3, 6, 12, 9, 20};
  test.nest.element_bytes = sizes[random.below(std::size(sizes))];
  const auto rank = static_cast<std::size_t>(random.between(2, 5));
  const std::int64_t longest = rank == 2 ? 400 : rank == 3 ? 60 : rank == 4 ? 20 : 9;
  std::vector<Loop> loops(rank);
  for (Loop& loop : loops) loop.extent = random.between(2, random.chance(0.3) ? 9 : longest);
  const auto lay_out = [&](std::int64_t Loop::*stride, std::int64_t& offset, bool reverses) {
    for (std::size_t k = rank - 1; k > 0; --k) {
      std::swap(loops[k], loops[static_cast<std::size_t>(random.below(std::int64_t(k) + 1))]);
    }
    std::int64_t bytes = test.nest.element_bytes;
    for (Loop& loop : loops) {
      const std::int64_t step = random.chance(0.1) ? 2 : 1;
      loop.*stride = bytes * step;
      bytes *= loop.extent * step + (random.chance(0.2) ? random.below(5) : 0);
      if (!reverses || !random.chance(0.1)) continue;
      offset += (loop.extent - 1) * loop.*stride;
      loop.*stride = -(loop.*stride);
    }
  };
  lay_out(&Loop::source_stride, test.nest.source_offset, true);
  lay_out(&Loop::target_stride, test.nest.target_offset, random.chance(0.3));
  for (const Loop& loop : loops)
    add(test.nest, loop.extent, loop.source_stride, loop.target_stride);
  test.source_shift = random.chance(0.5) ? random.below(33) : 0;
  test.target_shift = random.chance(0.5) ? random.below(33) : 0;
  return test;
}

/// Tiles of many sizes, so that runs are cut, whole or joined, and margins and edges occur.
TEST(tiles_of_any_shape_move_as_walked) {
  int kinds[3] = {}, margins = 0, several = 0;
  Memory ends(64, 0);
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    Random random(seed + 180'000);
    const Case test = random_transpose(random);
    const KernelTuning tuning{.tiles = 2,
                              .tile_bytes = std::int64_t{1024} << random.below(6),
                              .tile_target_bytes = random.chance(0.5) ? 0 : 32 << random.below(5),
                              .tile_source_bytes = std::int64_t{16} << random.below(6)};
    EXPECT_EQ(moves_as_walked(test, random, nullptr, tuning) ? seed : ~seed, seed);
    std::vector<KernelPlan> plans;
    plan_kernels(test.nest, ends.data() + test.source_shift, ends.data() + test.target_shift, plans,
                 tuning);
    if (plans[0].kind != KernelKind::tile) continue;
    const TilePlan& tile = plans[0].tile;
    ++kinds[static_cast<int>(tile.kind)];
    margins += tile.margin > 0 ? 1 : 0;
    several += tile.rank_p > 1 || tile.rank_q > 1 ? 1 : 0;
  }
  for (const int count : kinds) EXPECT(count > 100);
  EXPECT(margins > 100);
  EXPECT(several > 100);
}

/// Boxes of any loops, with a table of the units of a target run.
TEST(table_tiles_of_any_shape_move_as_walked) {
  int tiles = 0, margins = 0, cut = 0, along = 0, across = 0, more = 0, row_loops = 0;
  int backwards = 0, pieces = 0;
  Memory ends(64, 0);
  for (std::uint64_t seed = 0; seed < test::seed_count(8000); ++seed) {
    Random random(seed + 560'000);
    const Case test = seed % 4 == 0 ? random_case(random) : random_transpose(random);
    const KernelTuning tuning{.tiles = 3,
                              .tiled_bytes = 0,
                              .tile_bytes = std::int64_t{1024} << random.below(6),
                              .tile_blocks = random.chance(0.5) ? 1 : 1024};
    EXPECT_EQ(moves_as_walked(test, random, nullptr, tuning) ? seed : ~seed, seed);
    std::vector<KernelPlan> plans;
    plan_kernels(test.nest, ends.data() + test.source_shift, ends.data() + test.target_shift, plans,
                 tuning);
    if (plans.empty() || plans[0].kind != KernelKind::table) continue;
    const TilePlan& tile = plans[0].tile;
    const TablePlan& table = plans[0].table;
    ++tiles;
    margins += tile.margin > 0 ? 1 : 0;
    cut += tile.margin == 0 && tile.tiles_p.divisor > 1 ? 1 : 0;
    along += table.row_grows == RowGrows::along ? 1 : 0;
    across += table.row_grows == RowGrows::across ? 1 : 0;
    backwards += table.entry_bias > 0 ? 1 : 0;
    pieces += table.in_pieces ? 1 : 0;
    more += tile.tile_r > 1 ? 1 : 0;
    row_loops += tile.rank_p > 0 ? 1 : 0;
  }
  std::printf(
      "%d tiles: margins %d, cut %d, along %d, across %d, more %d, row loops %d, back %d, pieces "
      "%d\n",
      tiles, margins, cut, along, across, more, row_loops, backwards, pieces);
  const auto least = static_cast<int>(test::seed_count(100));
  for (const int count : {margins, cut, along, across, more, row_loops, backwards, pieces}) {
    EXPECT(count >= least);
  }
}

/// Tiles count along their runs in 31 bits; longer runs are carried by other kernels.
TEST(runs_that_are_too_long_to_count_go_in_no_tile) {
  Memory ends(64, 0);
  for (const std::int64_t bytes : {1, 12, 64}) {
    for (const bool long_target : {true, false}) {
      const std::int64_t count = (std::int64_t{3} << 30) / bytes + 1;
      const std::int64_t x = long_target ? count : 3, y = long_target ? 3 : count;
      Case test;
      test.nest.element_bytes = bytes;
      add(test.nest, x, bytes * y, bytes);
      add(test.nest, y, bytes, bytes * x);
      std::vector<KernelPlan> plans;
      plan_kernels(test.nest, ends.data(), ends.data(), plans, {.tiles = 2});
      for (const KernelPlan& plan : plans) EXPECT(plan.kind != KernelKind::tile);
    }
  }
}

TEST(nests_of_more_loops_than_a_kernel_walks_become_several_plans) {
  Case test;
  test.nest.element_bytes = 2;
  constexpr int rank = 11;
  std::int64_t target = 2;
  for (int k = 0; k < rank; ++k) {
    add(test.nest, 2, std::int64_t{2} << ((k * 4) % rank), target);
    target *= 2;
  }
  Random random(5);
  std::vector<KernelPlan> plans;
  plan_kernels(test.nest, nullptr, nullptr, plans);
  EXPECT_EQ(plans.size(), 4u);  // the first loop becomes part of the element
  EXPECT(moves_as_walked(test, random));
}

TEST(boxes_of_runs_of_many_gibibytes_begin_where_they_should) {
  LoopNest run;
  run.element_bytes = (std::int64_t{1} << 36) + (std::int64_t{1} << 20) + 1;
  alignas(16) static std::byte memory[32];  // only addresses are computed
  std::vector<KernelPlan> plans;
  plan_kernels(run, memory + 1, memory, plans);
  EXPECT_EQ(plans.size(), 1u);
  EXPECT_EQ(static_cast<int>(plans[0].kind), static_cast<int>(KernelKind::shifted));
  const auto block = static_cast<std::uint32_t>(plans[0].blocks - 1);
  const DirectPlace place = locate_direct(plans[0], block, memory + 1, memory);
  EXPECT_EQ(place.first, std::int64_t{block} * plans[0].box[0]);
  EXPECT(place.first > std::int64_t{1} << 32);
  EXPECT_EQ(place.target - memory, place.first * 16);
}

TEST(misaligned_runs_of_more_loops_than_a_kernel_walks_move_as_walked) {
  Case test;
  constexpr std::int64_t run = 81;
  test.nest.element_bytes = run;
  std::int64_t source = run + 2, target = run + 5;
  for (int k = 0; k < 9; ++k) {
    add(test.nest, 2, source, target);
    source = 2 * source + 1;
    target = 2 * target + 3;
  }
  Random random(5);
  for (test.source_shift = 0; test.source_shift < 16; ++test.source_shift) {
    test.target_shift = (5 * test.source_shift + 1) % 16;
    KernelKind kind = KernelKind::rows;
    EXPECT(moves_as_walked(test, random, &kind));
    EXPECT_EQ(static_cast<int>(kind), static_cast<int>(KernelKind::shifted));
  }
}

TEST(empty_nests_need_no_kernel_and_single_elements_need_one) {
  std::vector<KernelPlan> plans;
  LoopNest nest;
  nest.element_bytes = 4;
  add(nest, 0, 4, 4);
  plan_kernels(nest, nullptr, nullptr, plans);
  EXPECT(plans.empty());
  Case single;
  single.nest.element_bytes = 4;
  Random random(1);
  EXPECT(moves_as_walked(single, random));
}

TEST(pieces_of_all_lengths_and_alignments_arrive) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const std::int64_t count = seed < 3 ? 1 : random.between(1, 40);
    const bool aligned = random.chance(0.5);
    std::vector<Run> pieces;
    std::int64_t from = random.below(20), to = guard_bytes + random.below(20);
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t bytes = seed < 3 ? 100'000 : random.between(0, 6000);
      const std::int64_t step = aligned ? 16 : 1;
      pieces.push_back({from / step * step, to / step * step, bytes});
      from += bytes + 16 + random.below(40);
      to += bytes + 16 + random.below(40);
    }
    Memory source(from, 0), target(to + guard_bytes, 0), expected(to + guard_bytes, 0);
    for (std::int64_t i = 0; i < from; ++i) source.data()[i] = std::byte(random.next());
    for (const Run& piece : pieces) {
      std::memcpy(expected.data() + piece.target_offset, source.data() + piece.source_offset,
                  static_cast<std::size_t>(piece.bytes));
    }
    run_pieces_on_host(pieces.data(), count, source.data(), target.data());
    EXPECT(target.equals(expected, to + guard_bytes));
  }
}

/// Returns the plans of a dense nest as text. `source` and `target` list the loops in their order
/// on each side, the fastest first.
std::string explained(const std::string& name, std::int64_t element_bytes,
                      const std::vector<std::int64_t>& extents, const std::vector<int>& source,
                      const std::vector<int>& target) {
  LoopNest nest;
  nest.element_bytes = element_bytes;
  std::vector<Loop> loops(extents.size());
  std::int64_t source_stride = element_bytes, target_stride = element_bytes;
  for (std::size_t k = 0; k < extents.size(); ++k) {
    const auto from = static_cast<std::size_t>(source[k]), to = static_cast<std::size_t>(target[k]);
    loops[from].source_stride = source_stride;
    loops[to].target_stride = target_stride;
    loops[k].extent = extents[k];
    source_stride *= extents[from];
    target_stride *= extents[to];
  }
  for (const Loop& loop : loops) add(nest, loop.extent, loop.source_stride, loop.target_stride);
  std::vector<KernelPlan> plans;
  plan_kernels(nest, nullptr, nullptr, plans);
  std::string text = name + ":";
  for (const KernelPlan& plan : plans) text += " " + explain(plan);
  return text + "\n";
}

std::string named_cases() {
  std::string text;
  for (const std::int64_t bytes : {1, 2, 4, 8, 16}) {
    text += explained("transpose of " + std::to_string(bytes) + " B", bytes, {8192, 8192}, {0, 1},
                      {1, 0});
  }
  std::vector<int> order = {0, 1, 2};
  do {
    text += explained("permutation " + std::to_string(order[0]) + std::to_string(order[1]) +
                          std::to_string(order[2]),
                      4, {400, 500, 600}, {0, 1, 2}, order);
  } while (std::next_permutation(order.begin(), order.end()));
  for (const std::int64_t fields : {2, 3, 4, 5, 7, 8, 12, 16}) {
    const std::string number = std::to_string(fields);
    text +=
        explained("records to columns, " + number + " x f32", 4, {fields, 1 << 20}, {0, 1}, {1, 0});
    text +=
        explained("columns to records, " + number + " x f32", 4, {1 << 20, fields}, {0, 1}, {1, 0});
  }
  text += explained("records to columns, 3 x f64", 8, {3, 1 << 20}, {0, 1}, {1, 0});
  text += explained("columns to records, 3 x f64", 8, {1 << 20, 3}, {0, 1}, {1, 0});
  for (const std::int64_t bytes : {2, 4}) {
    for (const std::int64_t channels : {3, 16, 64, 256}) {
      const std::string what =
          std::to_string(channels) + " channels of " + std::to_string(bytes) + " B";
      text +=
          explained("NHWC to NCHW, " + what, bytes, {channels, 50176, 32}, {0, 1, 2}, {1, 0, 2});
      text +=
          explained("NCHW to NHWC, " + what, bytes, {50176, channels, 32}, {0, 1, 2}, {1, 0, 2});
    }
  }
  text += explained("columns to blocks of 4 of 8 x f32", 4, {4, 1 << 18, 8}, {0, 1, 2}, {0, 2, 1});
  text += explained("blocks of 4 of 8 x f32 to columns", 4, {4, 8, 1 << 18}, {0, 1, 2}, {0, 2, 1});
  text += explained("records of 8 x f32 to blocks of 4", 4, {8, 4, 1 << 18}, {0, 1, 2}, {1, 0, 2});
  text += explained("blocks of 4 of 8 x f32 to records", 4, {4, 8, 1 << 18}, {0, 1, 2}, {1, 0, 2});
  text += explained("records to columns, 3 x f32, odd", 4, {3, (1 << 20) + 1}, {0, 1}, {1, 0});
  text += explained("columns to records, 3 x f32, odd", 4, {3, (1 << 20) + 1}, {1, 0}, {0, 1});
  text += explained("transpose of records of 12 B", 12, {3000, 4000}, {0, 1}, {1, 0});
  text += explained("rows of 4 KiB in another order", 4096, {100, 200}, {0, 1}, {1, 0});
  return text;
}

TEST(named_cases_are_as_their_golden_or_rewrite_goldens) {
  const std::string path =
      std::string(TRANSHIP_SOURCE_DIR) + "/tests/gpu/kernels/goldens/kernels.txt";
  const std::string text = named_cases();
  if (test::argument(1) == "rewrite_goldens") {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream file(path);
  const std::string golden((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
  EXPECT_EQ(text, golden);
}

}  // namespace
}  // namespace tranship::gpu
