// Tiles of records whose fields lie in another order or with other gaps on each side, and whose
// loops go in another order: what they move, and how many sectors of memory they touch for it.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "data/lowering.hpp"
#include "gpu/kernels/nests.hpp"
#include "gpu/kernels/table_tile_body.hpp"
#include "support/test.hpp"

namespace tranship::gpu {
namespace {

using Widths = std::vector<std::int64_t>;

/// Where the fields of a record lie, and how many bytes it has.
struct RecordLayout {
  std::vector<std::int64_t> offsets;
  std::int64_t bytes = 0;
};

/// Places fields one after the other. order: Numbers of the fields. aligned: Each field at a
/// multiple of its width, and the record a multiple of the widest, as C does.
RecordLayout place_fields(const Widths& widths, const std::vector<std::size_t>& order,
                          bool aligned) {
  RecordLayout layout;
  layout.offsets.resize(widths.size());
  std::int64_t widest = 1;
  const auto align = [&](std::int64_t width) {
    if (aligned) layout.bytes = (layout.bytes + width - 1) / width * width;
  };
  for (const std::size_t field : order) {
    align(widths[field]);
    layout.offsets[field] = layout.bytes;
    layout.bytes += widths[field];
    widest = std::max(widest, widths[field]);
  }
  align(widest);
  return layout;
}

template <typename Value>
void shuffle(std::vector<Value>& values, Random& random) {
  for (std::size_t k = values.size(); k > 1; --k) {
    std::swap(values[k - 1], values[static_cast<std::size_t>(random.below(std::int64_t(k)))]);
  }
}

/// Records of random fields on both sides.
struct RecordCase {
  Widths widths;
  RecordLayout source;
  RecordLayout target;
  std::vector<Loop> loops;
  std::int64_t source_offset = 0;
  std::int64_t target_offset = 0;
};

/// Draws the fields and how they lie on each side: at least one side is packed in their order.
void draw_fields(Random& random, RecordCase& test) {
  static constexpr std::int64_t choice[] = {1, 2, 4, 8};
  const std::int64_t fields = random.between(2, 5);
  for (std::int64_t k = 0; k < fields; ++k) test.widths.push_back(choice[random.below(4)]);
  std::vector<std::size_t> order(test.widths.size());
  for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
  test.source = test.target = place_fields(test.widths, order, false);
  RecordLayout& other = random.chance(0.5) ? test.source : test.target;
  const std::int64_t kind = random.below(3);
  if (kind == 1) std::reverse(order.begin(), order.end());
  if (kind == 2) shuffle(order, random);
  other = place_fields(test.widths, order, kind == 0);
}

/// Slices of one side: chances of a step, of a margin and of a reversed dimension.
struct Slices {
  double step = 0;
  double margin = 0;
  double reversed = 0;
};

/// Lays out the loops of one side in random order.
void lay_out(Random& random, std::int64_t record_bytes, std::int64_t Loop::*stride,
             const Slices& slices, std::int64_t& offset, std::vector<Loop>& loops) {
  shuffle(loops, random);
  std::int64_t bytes = record_bytes;
  for (Loop& loop : loops) {
    const std::int64_t step = random.chance(slices.step) ? random.between(2, 3) : 1;
    loop.*stride = bytes * step;
    bytes *= loop.extent * step + (random.chance(slices.margin) ? random.below(5) : 0);
    if (!random.chance(slices.reversed)) continue;
    offset += (loop.extent - 1) * loop.*stride;
    loop.*stride = -(loop.*stride);
  }
}

/// Returns one nest for each field, as lowering makes them, or (`merged`) as few as it leaves.
std::vector<LoopNest> nests_of(const RecordCase& test, bool merged) {
  std::vector<LoopNest> nests;
  for (std::size_t field = 0; field < test.widths.size(); ++field) {
    LoopNest nest;
    nest.element_bytes = test.widths[field];
    nest.source_offset = test.source_offset + test.source.offsets[field];
    nest.target_offset = test.target_offset + test.target.offsets[field];
    for (const Loop& loop : test.loops) {
      add(nest, loop.extent, loop.source_stride, loop.target_stride);
    }
    nests.push_back(nest);
  }
  if (merged) merge(nests, 0);
  return nests;
}

RecordCase random_records(Random& random) {
  RecordCase test;
  draw_fields(random, test);
  const auto rank = static_cast<std::size_t>(random.between(1, 5));
  const std::int64_t longest = rank == 1 ? 900 : rank == 2 ? 150 : rank == 3 ? 30 : 9;
  test.loops.resize(rank);
  for (Loop& loop : test.loops) {
    loop.extent =
        random.between(2, random.chance(0.3) ? std::min<std::int64_t>(9, longest) : longest);
  }
  // Rows that are too long to be one record.
  if (rank == 2 && random.chance(0.2)) {
    test.loops[0].extent = random.between(100, 900);
    test.loops[1].extent = random.between(2, 9);
  }
  const Slices sliced{0.15, 0.3, 0.15};
  const bool scatters = random.chance(0.5);
  lay_out(random, test.source.bytes, &Loop::source_stride, scatters ? Slices{} : sliced,
          test.source_offset, test.loops);
  lay_out(random, test.target.bytes, &Loop::target_stride, scatters ? sliced : Slices{},
          test.target_offset, test.loops);
  return test;
}

TEST(transposed_records_move_as_walked) {
  int tiles = 0, along = 0, margins = 0, pieces = 0, units[9] = {};
  std::vector<KernelPlan> plans;
  for (std::uint64_t seed = 0; seed < test::seed_count(6000); ++seed) {
    Random random(seed + 770'000);
    const RecordCase records = random_records(random);
    GroupCase test{nests_of(records, random.chance(0.7))};
    if (random.chance(0.4)) test.source_shift = random.below(64);
    if (random.chance(0.4)) test.target_shift = random.below(64);
    // A field may be left out; then its bytes of the records must not be touched.
    if (test.nests.size() > 2 && random.chance(0.2)) test.nests.erase(test.nests.begin() + 1);
    const KernelTuning tuning{
        .tile_bytes = random.chance(0.5) ? 28672 : std::int64_t{1024} << random.below(6),
        .tile_blocks = random.chance(0.5) ? 1 : 1024};
    EXPECT_EQ(moves_as_walked(test, random, plans, tuning) ? seed : ~seed, seed);
    if (plans[0].kind != KernelKind::table) continue;
    ++tiles;
    ++units[plans[0].element_bytes];
    along += plans[0].table.along_rows ? 1 : 0;
    margins += plans[0].tile.margin > 0 ? 1 : 0;
    pieces += plans[0].table.in_pieces ? 1 : 0;
  }
  std::printf("%d tiles: %d along their rows, %d with margins, %d in pieces, units %d %d %d %d\n",
              tiles, along, margins, pieces, units[1], units[2], units[4], units[8]);
  const auto least = static_cast<int>(test::seed_count(100));
  for (const int count : {along, pieces, units[1], units[2], units[4]}) EXPECT(count >= least);
  EXPECT(margins >= least / 4);
}

/// Sectors of memory that some blocks of a tile plan touch, and the bytes that they move.
struct Traffic {
  double read = 0;
  double written = 0;
  double filled = 0;  ///< sectors that are written in part, which memory reads before
  double payload = 0;

  /// Returns the time of a copy of the payload over the modelled time: both move whole sectors.
  double over_copy() const { return 2 * payload / (sector_bytes * (read + written + filled)); }
};

/// Bytes of each sector that a block writes.
using Written = std::map<std::int64_t, std::int64_t>;

void write_range(std::int64_t begin, std::int64_t end, Written& written) {
  for (std::int64_t sector = begin / sector_bytes; sector * sector_bytes < end; ++sector) {
    const std::int64_t first = std::max<std::int64_t>(begin, sector * sector_bytes);
    written[sector] += std::min<std::int64_t>(end, (sector + 1) * sector_bytes) - first;
  }
}

/// Adds the sectors of one block. part_bytes: Bytes of a period that are moved.
void add_block(const KernelPlan& plan, std::uint32_t block, std::int64_t part_bytes,
               Traffic& traffic) {
  const TilePlan& tile = plan.tile;
  const TablePlan& table = plan.table;
  std::byte* base = nullptr;
  base += std::int64_t{1} << 40;  // only offsets are computed, which may be negative
  const TilePlace place = locate_table_tile(tile, table, block, base, base);
  const std::int32_t source_rows = tile.rows_p * tile.tile_r;
  const std::int32_t target_rows = tile.tile_q * tile.tile_r;
  std::vector<std::int64_t> rows(static_cast<std::size_t>(source_rows + target_rows));
  std::vector<std::uint32_t> bases(static_cast<std::size_t>(target_rows));
  for (std::uint32_t thread = 0; thread < kernel_threads; ++thread) {
    table_rows(tile, table, place, thread, rows.data(), reinterpret_cast<std::byte*>(bases.data()));
  }
  std::set<std::int64_t> read;
  Written written;
  const std::int64_t unit_bytes = plan.element_bytes;
  const std::int64_t run = std::int64_t{table.last_unit} * unit_bytes;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows[row] == no_row) continue;
    if (row < static_cast<std::size_t>(source_rows)) {
      const std::int64_t from = reinterpret_cast<std::int64_t>(place.source) + rows[row];
      for (std::int64_t k = from / sector_bytes; k * sector_bytes < from + place.row_bytes; ++k)
        read.insert(k);
      continue;
    }
    const std::int64_t to = reinterpret_cast<std::int64_t>(place.target) + rows[row];
    const std::int64_t first = std::int64_t{place.tile_p} * tile.tile_p * tile.element_bytes -
                               (table.overlaps ? to % sector_bytes : 0);
    const std::int64_t end = first + std::int64_t{tile.tile_p} * tile.element_bytes;
    if (end <= 0 || first >= run) continue;
    write_range(to + std::max<std::int64_t>(first, 0), to + std::min(end, run), written);
  }
  const bool packed = part_bytes == tile.element_bytes;
  traffic.read += static_cast<double>(read.size());
  traffic.written += static_cast<double>(written.size());
  for (const auto& [sector, bytes] : written) {
    traffic.filled += packed && bytes == sector_bytes ? 0 : 1;
    traffic.payload +=
        static_cast<double>(bytes) * static_cast<double>(part_bytes) / tile.element_bytes;
  }
}

/// Returns the traffic of evenly spread blocks.
Traffic traffic_of(const KernelPlan& plan) {
  constexpr std::int64_t blocks_most = 48;
  std::int64_t part_bytes = 0;
  if (plan.table.in_pieces) {
    for (std::uint32_t piece = 0; piece < plan.table.pieces.divisor; ++piece) {
      part_bytes += 1 << (plan.table.entry[2 * piece + 1] & 3);
    }
  } else {
    for (std::uint32_t unit = 0; unit < plan.table.period.divisor; ++unit) {
      part_bytes += plan.table.entry[unit] != table_gap ? plan.element_bytes : 0;
    }
  }
  Traffic traffic;
  const std::int64_t count = std::min(plan.blocks, blocks_most);
  for (std::int64_t k = 0; k < count; ++k) {
    add_block(plan, static_cast<std::uint32_t>(k * plan.blocks / count), part_bytes, traffic);
  }
  return traffic;
}

/// Draws extents and slices as `tranship bench gpu-shapes` does: arrays of some 64 MiB.
RecordCase large_records(Random& random) {
  RecordCase test;
  draw_fields(random, test);
  const auto rank = static_cast<std::size_t>(random.between(2, 5));
  test.loops.resize(rank);
  const std::int64_t kind = random.below(3);
  const std::int64_t least = kind == 0 ? 16 : 3;
  std::int64_t left = (std::int64_t{64} << 20) / test.target.bytes;
  for (std::size_t k = 0; k < rank; ++k) {
    std::int64_t rest = 1;
    for (std::size_t more = k + 1; more < rank; ++more) rest *= least;
    const std::int64_t most = std::max(left / rest, least);
    std::int64_t extent = most;
    if (k + 1 < rank) {
      extent = least << random.below(20);
      while (extent > most) extent = std::max(extent / 2, least);
      extent = std::min(extent + random.below(extent), most);
      if (random.chance(0.4)) extent = random.between(least, std::min<std::int64_t>(40, most));
    }
    test.loops[k].extent = kind == 0   ? std::max<std::int64_t>((extent + 8) / 16 * 16, 16)
                           : kind == 1 ? extent | 1
                                       : extent;
    left = std::max(left / test.loops[k].extent, std::int64_t{1});
  }
  const Slices sliced = kind == 2 ? Slices{1.0 / 6, 2.0 / 3, 1.0 / 12} : Slices{};
  const bool scatters = random.chance(0.25);
  lay_out(random, test.source.bytes, &Loop::source_stride, scatters ? Slices{} : sliced,
          test.source_offset, test.loops);
  lay_out(random, test.target.bytes, &Loop::target_stride, scatters ? sliced : Slices{},
          test.target_offset, test.loops);
  return test;
}

/// Returns the value below which a share of the sorted values lie.
double quantile(const std::vector<double>& values, double share) {
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

/// Returns whether nothing but the fields' bytes has to be moved: neither side has padding, and the
/// source has no steps.
bool is_dense(const RecordCase& records, const KernelPlan& plan) {
  const std::int64_t bytes = std::accumulate(records.widths.begin(), records.widths.end(), 0L);
  const bool steps = std::any_of(records.loops.begin(), records.loops.end(), [&](const Loop& loop) {
    return std::llabs(loop.source_stride) > bytes && std::llabs(loop.source_stride) <= 3 * bytes;
  });
  return records.source.bytes == bytes && !plan.table.in_pieces && plan.table.moves_at == 0 &&
         !steps;
}

/// Blocks move whole sectors, where the shapes allow it: the modelled rates of large transposes
/// stay near the copy's. With padding in the target, memory reads what it writes in part.
TEST(tiles_of_records_touch_few_sectors) {
  std::vector<double> dense, others;
  int alone = 0;
  Memory ends(64, 0);
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    Random random(seed + 9'900'000);
    const RecordCase records = large_records(random);
    std::vector<KernelPlan> plans;
    plan_kernels(nests_of(records, true), ends.data(), ends.data(), plans);
    alone += plans.size() > 1 ? 1 : 0;
    if (plans[0].kind != KernelKind::table) continue;
    const double over_copy = traffic_of(plans[0]).over_copy();
    (is_dense(records, plans[0]) ? dense : others).push_back(over_copy);
    if (test::argument(2) == "each") {
      std::printf("%.2f %s\n", over_copy, explain(plans[0]).c_str());
    }
  }
  EXPECT_EQ(alone, 0);
  for (std::vector<double>* all : {&dense, &others}) {
    REQUIRE(all->size() > 100);
    std::sort(all->begin(), all->end());
    std::printf("%zu tiles over the copy: least %.2f, 5 %% %.2f, 25 %% %.2f, median %.2f\n",
                all->size(), all->front(), quantile(*all, 0.05), quantile(*all, 0.25),
                quantile(*all, 0.5));
  }
  EXPECT(quantile(dense, 0.05) > 0.65);
  EXPECT(quantile(dense, 0.25) > 0.9);
  EXPECT(quantile(others, 0.05) > 0.35);
  EXPECT(quantile(others, 0.5) > 0.5);
}

/// A tile counts indices in 31 bits: longer loops go by the other kernels.
TEST(loops_beyond_31_bits_are_not_tiled) {
  Memory ends(64, 0);
  for (const std::int64_t long_loop :
       {(std::int64_t{1} << 31) + 100, std::int64_t{1} << 32, (std::int64_t{1} << 32) + 100}) {
    for (const std::int64_t source_stride : {std::int64_t{0}, std::int64_t{20}}) {
      std::vector<LoopNest> fields;
      for (std::int64_t f = 0; f < 2; ++f) {
        LoopNest nest;
        nest.element_bytes = 1;
        nest.source_offset = f;
        nest.target_offset = 1 - f;
        nest.rank = 2;
        nest.loops[0] = {2, 2, 2};
        nest.loops[1] = {long_loop, source_stride, 4};
        fields.push_back(nest);
      }
      LoopNest element;
      element.element_bytes = 1;
      element.rank = 3;
      element.loops[0] = {2, 2, 1};
      element.loops[1] = {2, 1, 2};
      element.loops[2] = {long_loop, source_stride, 4};
      for (const std::vector<LoopNest>& nests : {fields, std::vector<LoopNest>{element}}) {
        std::vector<KernelPlan> plans;
        plan_kernels(nests, ends.data(), ends.data(), plans);
        EXPECT(!plans.empty());
        for (const KernelPlan& plan : plans)
          EXPECT(plan.kind != KernelKind::tile && plan.kind != KernelKind::table);
      }
    }
  }
}

/// A target run may have more units than 31 bits count: blocks count from their own beginnings.
TEST(table_tiles_of_long_runs_begin_where_they_should) {
  Memory ends(64, 0);
  constexpr std::int64_t count = (std::int64_t{1} << 30) + 1, record = 5;
  std::vector<LoopNest> fields(2);
  for (std::size_t f = 0; f < 2; ++f) {
    fields[f].element_bytes = f == 0 ? 1 : 4;
    fields[f].source_offset = f == 0 ? 0 : 1;
    fields[f].target_offset = f == 0 ? 4 : 0;
    add(fields[f], count, record, record);
  }
  std::vector<KernelPlan> plans;
  plan_kernels(fields, ends.data(), ends.data(), plans);
  REQUIRE(plans.size() == 1 && plans[0].kind == KernelKind::table);
  const TilePlan& tile = plans[0].tile;
  EXPECT_EQ(plans[0].table.last_unit, count * record);
  const auto block = static_cast<std::uint32_t>(plans[0].blocks - 1);
  const TilePlace place = locate_table_tile(tile, plans[0].table, block, ends.data(), ends.data());
  EXPECT(std::int64_t{place.tile_p} * tile.tile_p < count);
  EXPECT(std::int64_t{place.tile_p + 1} * tile.tile_p >= count);
  EXPECT_EQ(place.source - ends.data(), std::int64_t{place.first_p} * record);
  EXPECT_EQ(std::int64_t{place.row_bytes}, (count - place.first_p) * record);
}

/// Where the source is repeated, shared memory does not limit a tile: what it writes does.
TEST(repeated_sources_are_spread_over_many_blocks) {
  struct Repeated {
    std::int64_t element_bytes;
    std::vector<Loop> loops;
    int fields;
  };
  const std::vector<Repeated> cases = {
      {3, {{715827883, 0, 3}}, 1},
      {3, {{std::int64_t{1} << 24, 0, 3}}, 1},
      {2, {{4096, 0, 2}, {4096, 2, 8192}}, 1},
      {1, {{std::int64_t{1} << 30, 0, 3}}, 2},
      {1, {{std::int64_t{1} << 30, 0, 4}}, 2},
  };
  Memory ends(64, 0);
  for (const Repeated& test : cases) {
    std::vector<LoopNest> nests(static_cast<std::size_t>(test.fields));
    for (std::size_t f = 0; f < nests.size(); ++f) {
      nests[f].element_bytes = test.element_bytes;
      nests[f].source_offset = static_cast<std::int64_t>(f);
      nests[f].target_offset = static_cast<std::int64_t>(f);
      for (const Loop& loop : test.loops) {
        add(nests[f], loop.extent, loop.source_stride, loop.target_stride);
      }
    }
    std::vector<KernelPlan> plans;
    plan_kernels(nests, ends.data(), ends.data(), plans);
    REQUIRE(plans.size() == 1 && plans[0].kind == KernelKind::table);
    const TilePlan& tile = plans[0].tile;
    EXPECT(plans[0].blocks >= 1000);
    EXPECT(std::int64_t{tile.tile_p} * tile.element_bytes * tile.tile_q * tile.tile_r <= 65536);
  }
}

}  // namespace
}  // namespace tranship::gpu
