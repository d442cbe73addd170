#include "gpu/kernels/table_tile_plan.hpp"

#include <algorithm>
#include <bit>
#include <span>

#include "gpu/kernels/kernel_body.hpp"
#include "gpu/kernels/kernel_plan.hpp"
#include "gpu/kernels/table_box.hpp"

namespace tranship::gpu {
namespace {

/// Writes the plan of a box.
class PlanWriter {
 public:
  PlanWriter(const RecordParts& records, const BoxSearch& search, const Box& box)
      : records_(records),
        loops_(records.loops),
        search_(search),
        box_(box),
        unit_(search.unit()) {}

  /// Returns false if the boxes do not fit one launch.
  bool write(KernelPlan& plan) {
    tile_.source_offset = records_.source_offset;
    tile_.target_offset = records_.target_offset;
    pitch_ = search_.pitch_of(search_.bytes_in_row(box_));
    tile_.pitch = static_cast<std::int32_t>(pitch_);
    set_chunk();
    set_rows();
    set_across();
    set_row_bytes();
    set_more();
    std::int64_t blocks = tiles_p_ * tile_.tiles_q.divisor * tile_.tiles_r.divisor;
    for (std::size_t k = 0; k < loops_.size(); ++k) {
      if (box_.roles[k] != Role::outside) continue;
      tile_.outer[tile_.outer_rank++] = tile_loop(loops_[k]);
      blocks *= loops_[k].extent;
      if (blocks >= std::int64_t{1} << 31) return false;
    }
    if (blocks >= std::int64_t{1} << 31) return false;
    fill();
    set_source_high();
    const std::int64_t shared = set_shared();
    if (shared > shared_bytes_max) return false;
    plan.kind = KernelKind::table;
    plan.element_bytes = static_cast<std::int32_t>(unit_);
    plan.blocks = blocks;
    plan.shared_bytes = static_cast<std::int32_t>(shared);
    plan.source_offset = tile_.source_offset;
    plan.target_offset = tile_.target_offset;
    plan.tile = tile_;
    plan.table = table_;
    return true;
  }

 private:
  static TileLoop tile_loop(const Loop& loop) {
    return {make_divisor(loop.extent), loop.source_stride, loop.target_stride};
  }

  void set_chunk() {
    const std::int64_t units = box_.period_bytes / unit_;
    table_.period = make_divisor(units);
    tile_.element_bytes = static_cast<std::int32_t>(box_.period_bytes);
    tile_.tile_p = static_cast<std::int32_t>(box_.chunks);
    tile_.margin = static_cast<std::int32_t>(box_.margin);
    table_.overlaps = box_.margin > 0;
    // Bytes of the target that one position spans.
    std::int64_t span = records_.target_span;
    std::int64_t count = 1;
    for (std::size_t k = 0; k < loops_.size(); ++k) {
      if (box_.roles[k] == Role::period) span += (loops_[k].extent - 1) * loops_[k].target_stride;
    }
    if (box_.chunk >= 0) {
      const Loop& loop = loops_[static_cast<std::size_t>(box_.chunk)];
      count = loop.extent;
      table_.along_rows = box_.in_row[static_cast<std::size_t>(box_.chunk)];
      table_.by_rows = search_.by_rows(box_);
      table_.source_stride_p = loop.source_stride;
      table_.period_step = static_cast<std::int32_t>(table_.along_rows ? loop.source_stride
                                                     : table_.by_rows  ? box_.rows_in * pitch_
                                                                       : 0);
    }
    if (table_.period_step < 0) {
      const std::int64_t turns = ceil_divide(vector_bytes_max, box_.period_bytes) + 1;
      table_.entry_bias = static_cast<std::int32_t>(-turns * table_.period_step);
    }
    tile_.count_p = static_cast<std::int32_t>(count);
    table_.last_unit = ((count - 1) * box_.period_bytes + span) / unit_;
    const std::int64_t end_bytes = search_.target_end_bytes(box_);
    const std::int64_t bytes = box_.chunks * box_.period_bytes;
    const bool aligned = end_bytes % vector_bytes_max == 0 && bytes % vector_bytes_max == 0;
    const std::int64_t reach = table_.overlaps || aligned ? bytes : bytes + vector_bytes_max - 1;
    tile_.row_vectors = static_cast<std::int32_t>(ceil_divide(reach, vector_bytes_max));
    tiles_p_ = ceil_divide(count * box_.period_bytes + (table_.overlaps ? end_bytes : 0), bytes);
    tile_.tiles_p = make_divisor(tiles_p_);
  }

  void set_rows() {
    for (std::size_t k = 0; k < loops_.size(); ++k) {
      if (box_.roles[k] == Role::period && search_.has_rows(box_, k)) {
        tile_.loops_p[tile_.rank_p++] = tile_loop(loops_[k]);
      }
    }
    table_.rows_in = make_divisor(box_.rows_in);
    const std::int64_t rows = box_.rows_in * (table_.by_rows ? box_.chunks + box_.margin : 1);
    tile_.rows_p = static_cast<std::int32_t>(rows);
    tile_.held_rows = make_divisor(rows);
    const std::int64_t bytes = search_.bytes_in_row(box_);
    tile_.row_words = make_divisor(ceil_divide(bytes, unit_ < 4 ? vector_bytes_max : unit_));
  }

  void set_across() {
    std::int64_t count = 1;
    for (std::size_t k : search_.order()) {
      if (box_.roles[k] != Role::across) continue;
      Loop loop = loops_[k];
      if (loop.source_stride < 0) {
        tile_.source_offset += (loop.extent - 1) * loop.source_stride;
        tile_.target_offset += (loop.extent - 1) * loop.target_stride;
        loop.source_stride = -loop.source_stride;
        loop.target_stride = -loop.target_stride;
      }
      tile_.loops_q[tile_.rank_q++] = tile_loop(loop);
      count *= loop.extent;
    }
    tile_.count_q = static_cast<std::int32_t>(count);
    tile_.tile_q = static_cast<std::int32_t>(box_.across);
    tile_.columns = make_divisor(box_.across);
    tile_.tiles_q = make_divisor(ceil_divide(count, box_.across));
    table_.inner_q = make_divisor(box_.across_inner);
    tile_.target_rows = make_divisor(box_.across * box_.more_rows);
  }

  /// Sets what a row consists of: the indices of its last loop, if a tile may hold a part of them.
  void set_row_bytes() {
    tile_.step_q = box_.row_step;
    tile_.source_bytes = static_cast<std::int32_t>(box_.row_inner);
    const Role role = box_.last_in_row < 0 ? Role::outside
                                           : box_.roles[static_cast<std::size_t>(box_.last_in_row)];
    if (role == Role::across) {
      table_.row_grows = RowGrows::across;
    } else if (role == Role::chunk) {
      table_.row_grows = RowGrows::along;
    } else {
      tile_.step_q = 0;
      tile_.source_bytes = static_cast<std::int32_t>(search_.bytes_in_row(box_));
    }
  }

  void set_more() {
    if (box_.more >= 0) {
      const Loop& loop = loops_[static_cast<std::size_t>(box_.more)];
      tile_.count_r = static_cast<std::int32_t>(loop.extent);
      tile_.source_stride_r = loop.source_stride;
      tile_.target_stride_r = loop.target_stride;
    }
    tile_.tile_r = static_cast<std::int32_t>(box_.more_rows);
    tile_.tiles_r = make_divisor(ceil_divide(tile_.count_r, box_.more_rows));
  }

  /// Fills the table of a period; moves the source's beginning to the rows' lowest byte.
  void fill() {
    std::vector<RecordPart> places = records_.parts;
    std::int64_t row_stride = pitch_;
    for (std::size_t k = 0; k < loops_.size(); ++k) {
      if (box_.roles[k] != Role::period) continue;
      Loop loop = loops_[k];
      std::int64_t low = 0;
      if (box_.in_row[k]) {
        if (loop.source_stride < 0) {
          low = -(loop.extent - 1) * loop.source_stride;
          tile_.source_offset -= low;
        }
      } else if (loop.source_stride != 0) {
        loop.source_stride = row_stride;
        row_stride *= loop.extent;
      }
      for (RecordPart& place : places) place.source += low;
      repeat(loop, places);
    }
    table_.entries = static_cast<std::int32_t>(table_.period.divisor);
    if ((box_.gaps() || has_short_runs()) && fill_pieces(places)) return;
    fill_units(places);
  }

  /// Fills the table of units.
  void fill_units(const std::vector<RecordPart>& places) {
    std::fill(table_.entry, table_.entry + table_units_max, table_gap);
    for (const RecordPart& place : places) {
      for (std::int64_t at = 0; at < place.bytes; at += unit_) {
        table_.entry[(place.target + at) / unit_] = static_cast<std::uint16_t>(place.source + at);
      }
    }
  }

  /// Returns whether most vectors of the target runs would be partial, and units are wide enough.
  bool has_short_runs() const {
    constexpr std::int64_t run_bytes_least = 96;
    const std::int64_t bytes = table_.last_unit * unit_;
    const bool aligned =
        search_.target_end_bytes(box_) % vector_bytes_max == 0 && bytes % vector_bytes_max == 0;
    return bytes < run_bytes_least && !aligned && unit_ >= 2;
  }

  /// Fills the table of pieces. Returns false if it has no room.
  bool fill_pieces(std::vector<RecordPart>& places) {
    std::sort(places.begin(), places.end(),
              [](const RecordPart& a, const RecordPart& b) { return a.target < b.target; });
    const std::int64_t bits = search_.piece_bits(box_);
    std::int64_t count = 0;
    for (const RecordPart& place : places) {
      for (std::int64_t at = 0; at < place.bytes;) {
        if (2 * (count + 1) > table_units_max) return false;
        const std::int64_t source = place.source + at, target = place.target + at;
        const std::int64_t left =
            std::int64_t{1} << (std::bit_width(static_cast<std::uint64_t>(place.bytes - at)) - 1);
        const std::int64_t bytes = lowest_bit(bits | target | left, table_unit_bytes_max);
        const int log2 = std::countr_zero(static_cast<std::uint64_t>(bytes));
        table_.entry[2 * count] = static_cast<std::uint16_t>(source);
        table_.entry[2 * count + 1] = static_cast<std::uint16_t>(target << 2 | log2);
        ++count;
        at += bytes;
      }
    }
    table_.in_pieces = true;
    table_.entries = static_cast<std::int32_t>(2 * count);
    table_.pieces = make_divisor(count);
    table_.run_pieces = make_divisor(count * box_.chunks);
    return true;
  }

  void set_source_high() {
    tile_.source_high = tile_.source_offset + records_.source_span;
    for (const Loop& loop : loops_) {
      tile_.source_high += (loop.extent - 1) * std::llabs(loop.source_stride);
    }
    // Loops that go backwards begin at their highest byte, but for those that were turned.
    for (std::size_t k = 0; k < loops_.size(); ++k) {
      if (loops_[k].source_stride < 0 && !(box_.in_row[k] && box_.roles[k] != Role::chunk)) {
        tile_.source_high += (loops_[k].extent - 1) * loops_[k].source_stride;
      }
    }
  }

  std::int64_t set_shared() {
    const std::int64_t rows = std::int64_t{tile_.rows_p} * tile_.tile_r;
    const std::int64_t runs = std::int64_t{tile_.tile_q} * tile_.tile_r;
    std::int64_t at = round_up(rows * pitch_, 16);
    tile_.rows_at = static_cast<std::int32_t>(at);
    at += table_row_bytes * (rows + runs);
    table_.bases_at = static_cast<std::int32_t>(at);
    at += table_base_bytes * runs;
    const auto period = static_cast<std::int64_t>(table_.period.divisor);
    constexpr auto entry = static_cast<std::int64_t>(sizeof(std::uint16_t));
    table_.table_at = static_cast<std::int32_t>(at);
    at += entry * table_.entries;
    if (table_.in_pieces) return at;
    table_.wide_at = static_cast<std::int32_t>(at);
    at += entry * (period + vector_bytes_max / unit_);
    const std::span entries(table_.entry, static_cast<std::size_t>(period));
    if (std::find(entries.begin(), entries.end(), table_gap) == entries.end()) return at;
    table_.moves_at = static_cast<std::int32_t>(at);
    return at + entry * period;
  }

  const RecordParts& records_;
  const std::vector<Loop>& loops_;
  const BoxSearch& search_;
  const Box& box_;
  std::int64_t unit_;
  std::int64_t pitch_ = 0;
  std::int64_t tiles_p_ = 1;
  TilePlan tile_;
  TablePlan table_;
};

}  // namespace

bool plan_table_tile(std::span<const NormalNest> normals, const std::byte* source,
                     const std::byte* target, const KernelTuning& tuning,
                     std::vector<KernelPlan>& plans) {
  RecordParts records;
  if (tuning.tiles == 0 || !view_parts(normals, records)) return false;
  if (records.loops.size() > table_loops_max) return false;
  for (const Loop& loop : records.loops) {
    if (loop.extent > table_extent_max) return false;
  }
  BoxSearch search(records, source, target, tuning);
  const Box box = search.best();
  if (box.cost == std::numeric_limits<double>::infinity()) return false;
  KernelPlan plan;
  if (!PlanWriter(records, search, box).write(plan)) return false;
  plans.push_back(plan);
  return true;
}

std::string explain_table_tile(const KernelPlan& plan) {
  const TilePlan& tile = plan.tile;
  return "table tile of " + std::to_string(tile.tile_p) + " x " +
         std::to_string(tile.element_bytes) + " bytes x " + std::to_string(tile.tile_q) + " x " +
         std::to_string(tile.tile_r) + " from " + std::to_string(tile.rows_p) + " rows of " +
         std::to_string(tile.pitch) + " bytes in units of " + std::to_string(plan.element_bytes) +
         ", margin " + std::to_string(tile.margin) + ", " + std::to_string(plan.blocks) + " blocks";
}

}  // namespace tranship::gpu
