#include "gpu/kernels/tile_plan.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "base/check.hpp"
#include "gpu/kernels/record_parts.hpp"
#include "gpu/kernels/tile_body.hpp"
#include "gpu/kernels/tile_shape.hpp"

namespace tranship::gpu {
namespace {

std::int64_t round_up(std::int64_t number, std::int64_t step) {
  return ceil_divide(number, step) * step;
}

/// Longest source record, in bytes, that a tile holds.
constexpr std::int64_t record_bytes_max = 2048;
/// Largest share of gaps in a record: its span is up to so many times its parts' bytes.
constexpr std::int64_t record_gaps_max = 4;
/// Widest unit of a record, in bytes, for which there is a kernel.
constexpr std::int64_t record_unit_max = 8;
/// Most rows of a tile along a loop outside its runs.
constexpr std::int64_t rows_max = 64;
constexpr std::int64_t record_rows_max = 512;

/// Bytes of shared memory that hold where a row begins.
constexpr std::int64_t row_bytes = 8;

/// Plans a tile: first the unit, then the tile's extents, then the numbers that depend on both.
class TilePlanner {
 public:
  TilePlanner(const TileShape& shape, const KernelTuning& tuning)
      : shape_(shape),
        work_(shape.work()),
        element_(work_.element_bytes),
        budget_(tuning.tile_bytes) {}

  /// Returns false if the tile does not fit a launch.
  bool plan(const std::byte* source, const std::byte* target, KernelPlan& result) {
    set_unit(source, target);
    set_extents();
    set_loops();
    const std::int64_t blocks = set_rows_and_blocks();
    if (blocks >= std::int64_t{1} << 31) return false;
    if (shape_.shuffled() && !fits_entries()) return false;
    set_divisors();
    set_offsets();
    const std::int64_t shared = set_shared();
    if (shared > shared_bytes_max) return false;
    result.kind = KernelKind::tile;
    result.element_bytes = static_cast<std::int32_t>(unit_);
    result.blocks = blocks;
    result.shared_bytes = static_cast<std::int32_t>(shared);
    result.source_offset = work_.source_offset;
    result.target_offset = work_.target_offset;
    result.tile = tile_;
    return true;
  }

 private:
  void set_unit(const std::byte* source, const std::byte* target) {
    std::int64_t unit_bits = element_ | address_bits(source, work_.source_offset) |
                             address_bits(target, work_.target_offset);
    std::int64_t target_bits = address_bits(target, work_.target_offset);
    for (std::size_t k = 0; k < work_.loops.size(); ++k) {
      const Loop& loop = work_.loops[k];
      unit_bits |= loop.source_stride | loop.target_stride;
      if (std::count(shape_.in_p.begin(), shape_.in_p.end(), k) == 0) {
        target_bits |= loop.target_stride;
      }
    }
    unit_ = common_bytes(unit_bits | part_bits(shape_.parts()));
    if (shape_.shuffled()) unit_ = std::min(unit_, record_unit_max);
    word_ = std::max<std::int64_t>(unit_, 4);
    margin_bytes_ = sector_bytes - lowest_bit(target_bits, sector_bytes);
    tile_.shuffled = shape_.shuffled();
    std::int64_t moved = 0;
    for (const RecordPart& part : shape_.parts()) moved += part.bytes;
    has_gaps_ = moved < element_;
    tile_.element_bytes = static_cast<std::int32_t>(element_);
    tile_.source_bytes = static_cast<std::int32_t>(shape_.source_bytes());
    tile_.parts = make_divisor(element_ / unit_);
    tile_.step_q = shape_.step_q;
  }

  /// Returns the bytes from row to row in shared memory: an odd number of words.
  std::int64_t pitch_of(std::int64_t columns) const {
    const std::int64_t bytes = (columns - 1) * shape_.step_q + shape_.source_bytes();
    return (ceil_divide(bytes, word_) | 1) * word_;
  }

  /// Returns the columns of a tile: as wished, more if it has few rows, and evenly divided.
  std::int64_t columns_for(std::int64_t held) const {
    const std::int64_t run_bytes_most = shape_.shuffled() ? 2048 : 1024;
    std::int64_t columns =
        std::clamp<std::int64_t>(shape_.wished_q() / shape_.step_q, 1, shape_.count_q);
    while (columns < shape_.count_q && columns * shape_.step_q < run_bytes_most &&
           held * pitch_of(std::min(2 * columns, shape_.count_q)) <= budget_) {
      columns = std::min(2 * columns, shape_.count_q);
    }
    columns = ceil_divide(shape_.count_q, ceil_divide(shape_.count_q, columns));
    while (held * pitch_of(columns) > shared_bytes_max * 3 / 4 && columns > 1) columns /= 2;
    return columns;
  }

  /// Sets the tile's extents: as wished, longer where the other side has less, and even.
  void set_extents() {
    constexpr std::int64_t sector = sector_bytes;
    const std::int64_t margin = ceil_divide(margin_bytes_, element_);
    const std::int64_t step = sector / std::gcd(element_, sector);
    std::int64_t rows = std::max<std::int64_t>(round_up(shape_.wished_p() / element_, step), step);
    const bool few_rows = shape_.count_p <= rows + margin;
    const std::int64_t columns = columns_for(few_rows ? shape_.count_p : rows + margin);
    if (!few_rows) {
      const std::int64_t fit = budget_ / pitch_of(columns);
      const std::int64_t most = std::max(rows, (fit - margin) / step * step);
      // Records may have short source runs, where only more rows give a block enough work.
      rows = shape_.shuffled() ? most : std::min(most, 4 * rows);
      if (shape_.count_p <= std::max(rows + margin, shape_.shuffled() ? fit : 0)) {
        rows = shape_.count_p;
      } else {
        const std::int64_t all = shape_.count_p + margin;
        rows = std::min(rows, round_up(ceil_divide(all, ceil_divide(all, rows)), step));
      }
    }
    const bool one_tile = shape_.count_p <= rows + margin && (few_rows || rows == shape_.count_p);
    if (one_tile) rows = shape_.count_p;
    tile_.margin = one_tile ? 0 : static_cast<std::int32_t>(margin);
    tile_.tile_p = static_cast<std::int32_t>(rows);
    tile_.rows_p = static_cast<std::int32_t>(one_tile ? rows : rows + margin);
    tile_.count_p = static_cast<std::int32_t>(shape_.count_p);
    tile_.count_q = static_cast<std::int32_t>(shape_.count_q);
    tile_.tile_q = static_cast<std::int32_t>(columns);
    tile_.pitch = static_cast<std::int32_t>(pitch_of(columns));
    if (element_ > unit_) tile_.kind = TileKind::elements;
    if (one_tile && columns > 1 && shape_.joins_along_q() && fits_table(rows * element_)) {
      tile_.kind = TileKind::joined;
    }
    tile_.joined_step = static_cast<std::int32_t>(shape_.step_q - shape_.count_p * tile_.pitch);
    const std::int64_t run_bytes = rows * element_ + (one_tile ? margin_bytes_ : 0);
    tile_.row_vectors = static_cast<std::int32_t>(ceil_divide(run_bytes, vector_bytes_max));
    tiles_p_ =
        one_tile ? 1 : ceil_divide(shape_.count_p * element_ + margin_bytes_, rows * element_);
    tile_.tiles_p = make_divisor(tiles_p_);
    tile_.tiles_q = make_divisor(ceil_divide(shape_.count_q, columns));
  }

  std::int32_t copy_loops(const std::vector<std::size_t>& from, TileLoop* to) const {
    for (std::size_t k = 0; k < from.size(); ++k) {
      const Loop& loop = work_.loops[from[k]];
      to[k] = {make_divisor(loop.extent), loop.source_stride, loop.target_stride};
    }
    return static_cast<std::int32_t>(from.size());
  }

  void set_loops() {
    tile_.rank_p = copy_loops(shape_.in_p, tile_.loops_p);
    tile_.rank_q = copy_loops(shape_.in_q, tile_.loops_q);
    const int along = shape_.rows_loop(most_rows());
    std::vector<std::size_t> outer;
    for (std::size_t k = 0; k < work_.loops.size(); ++k) {
      if (!shape_.taken(k) && static_cast<int>(k) != along) outer.push_back(k);
    }
    tile_.outer_rank = copy_loops(outer, tile_.outer);
    if (along < 0) return;
    const Loop& loop = work_.loops[static_cast<std::size_t>(along)];
    tile_.count_r = static_cast<std::int32_t>(loop.extent);
    tile_.source_stride_r = loop.source_stride;
    tile_.target_stride_r = loop.target_stride;
  }

  /// Returns the most rows along the loop outside the runs.
  std::int64_t most_rows() const {
    std::int64_t bytes = std::int64_t{tile_.rows_p} * tile_.pitch;
    if (shape_.shuffled()) bytes += row_bytes * (tile_.rows_p + tile_.tile_q);
    const std::int64_t fit = std::max<std::int64_t>(budget_ / bytes, 1);
    return std::min(fit, shape_.shuffled() ? record_rows_max : rows_max);
  }

  /// Sets the rows along the loop outside the runs. Returns the number of blocks.
  std::int64_t set_rows_and_blocks() {
    const std::int64_t rows = std::min(most_rows(), std::int64_t{tile_.count_r});
    const std::int64_t tiles = ceil_divide(tile_.count_r, rows);
    tile_.tile_r = static_cast<std::int32_t>(ceil_divide(tile_.count_r, tiles));
    const std::int64_t tiles_r = ceil_divide(tile_.count_r, tile_.tile_r);
    tile_.tiles_r = make_divisor(tiles_r);
    std::int64_t blocks = tiles_p_ * tile_.tiles_q.divisor * tiles_r;
    for (int k = 0; k < tile_.outer_rank; ++k) blocks *= tile_.outer[k].extent.divisor;
    return blocks;
  }

  void set_divisors() {
    tile_.held_rows = make_divisor(tile_.rows_p);
    tile_.columns = make_divisor(tile_.tile_q);
    tile_.target_rows = make_divisor(std::int64_t{tile_.tile_q} * tile_.tile_r);
    const std::int64_t bytes = (tile_.tile_q - 1) * shape_.step_q + shape_.source_bytes();
    tile_.row_words = make_divisor(ceil_divide(bytes, unit_ < 4 ? vector_bytes_max : unit_));
  }

  void set_offsets() {
    tile_.source_offset = work_.source_offset;
    tile_.target_offset = work_.target_offset;
    tile_.source_high = work_.source_offset + shape_.source_bytes();
    for (const Loop& loop : work_.loops) {
      const std::int64_t reach = (loop.extent - 1) * loop.source_stride;
      if (reach > 0) tile_.source_high += reach;
    }
  }

  /// Returns whether runs of records are short enough to be joined.
  bool fits_table(std::int64_t run_bytes) const {
    constexpr std::int64_t period_units_max = 512;
    return !shape_.shuffled() || run_bytes / unit_ <= period_units_max;
  }

  /// Returns whether the bytes from any unit of a vector to any other fit an entry of the table.
  bool fits_entries() const {
    const std::int64_t records = vector_bytes_max / element_ + 2;
    return records * tile_.pitch <= std::numeric_limits<std::uint16_t>::max();
  }

  /// Sets the tables of records, which begin at a byte of shared memory. Returns their end.
  std::int64_t set_tables(std::int64_t at) {
    const bool joins = tile_.kind == TileKind::joined;
    const std::int64_t parts = tile_.parts.divisor;
    const std::int64_t period = joins ? parts * tile_.count_p : parts;
    const std::int64_t units = vector_bytes_max / unit_;
    const auto entries = [](std::int64_t count) {
      return count * static_cast<std::int64_t>(sizeof(std::uint16_t));
    };
    tile_.period = make_divisor(period);
    tile_.period_step = static_cast<std::int32_t>(joins ? tile_.step_q : tile_.pitch);
    tile_.table_at = static_cast<std::int32_t>(at);
    tile_.wide_at = static_cast<std::int32_t>(at += entries(parts));
    at += entries(period + units);
    if (!has_gaps_) return at;
    tile_.moves_at = static_cast<std::int32_t>(at);
    return at + entries(parts);
  }

  /// Lays out shared memory: the rows, their offsets, and the records' tables. Returns its bytes.
  std::int64_t set_shared() {
    const std::int64_t rows = std::int64_t{tile_.rows_p} * tile_.tile_r;
    const std::int64_t rows_at = round_up(rows * tile_.pitch, 16);
    const std::int64_t end =
        rows_at + row_bytes * (rows + std::int64_t{tile_.tile_q} * tile_.tile_r);
    tile_.rows_at = static_cast<std::int32_t>(rows_at);
    return tile_.shuffled ? set_tables(end) : end;
  }

  const TileShape& shape_;
  const Work& work_;
  std::int64_t element_;
  std::int64_t budget_;
  TilePlan tile_;
  std::int64_t unit_ = 1;
  std::int64_t word_ = 4;
  std::int64_t margin_bytes_ = 0;
  std::int64_t tiles_p_ = 1;
  bool has_gaps_ = false;
};

/// Returns the bytes of the records' units.
std::int64_t unit_of(const RecordParts& records, const std::byte* source, const std::byte* target) {
  std::int64_t bits = part_bits(records.parts) | address_bits(source, records.source_offset) |
                      address_bits(target, records.target_offset);
  for (const Loop& loop : records.loops) bits |= loop.source_stride | loop.target_stride;
  return std::min(common_bytes(bits), record_unit_max);
}

/// Returns how many loops make one record together with what they go over: those that both sides go
/// along first, in any order, if the bytes that they span are few and hardly have gaps.
std::size_t loops_within(const RecordParts& records, std::int64_t unit) {
  std::size_t within = 0;
  std::int64_t bytes = records.bytes;
  std::int64_t source_span = records.source_span, target_span = records.target_span;
  for (std::size_t k = 0; k + 1 < records.loops.size(); ++k) {
    const Loop& loop = records.loops[k];
    bytes *= loop.extent;
    source_span += (loop.extent - 1) * std::llabs(loop.source_stride);
    target_span += (loop.extent - 1) * loop.target_stride;
    if (source_span > record_bytes_max || target_span / unit > shuffle_units_max) break;
    const bool first = std::all_of(records.loops.begin() + static_cast<std::ptrdiff_t>(k) + 1,
                                   records.loops.end(), [&](const Loop& other) {
                                     return std::llabs(other.source_stride) >= source_span &&
                                            other.target_stride >= target_span;
                                   });
    const bool dense = std::max(source_span, target_span) <= record_gaps_max * bytes;
    if (first && dense) within = k + 1;
  }
  return within;
}

/// Divides a long loop that both sides go along first, so that equally many of its records make one
/// record. Returns false if it has no such loop, or no divisor.
bool split_first_loop(RecordParts& records, std::int64_t unit) {
  constexpr std::int64_t count_least = 4;
  if (records.loops.size() == kernel_loops_max) return false;
  const Loop loop = records.loops[0];
  const std::int64_t step = std::llabs(loop.source_stride);
  const std::int64_t step_max = record_gaps_max * records.bytes;
  if (step < records.source_span || step > step_max || loop.target_stride > step_max) return false;
  for (const Loop& other : records.loops) {
    if (std::llabs(other.source_stride) < step) return false;
  }
  std::int64_t count =
      std::min(record_bytes_max / 2 / step, shuffle_units_max * unit / loop.target_stride);
  while (count >= count_least && loop.extent % count != 0) --count;
  if (count < count_least) return false;
  records.loops[0] = {loop.extent / count, count * loop.source_stride, count * loop.target_stride};
  records.loops.insert(records.loops.begin(), Loop{count, loop.source_stride, loop.target_stride});
  return true;
}

/// Returns whether the parts are short and lie close enough together on both sides to be moved as
/// records. Long parts fill sectors by themselves.
bool are_records(const RecordParts& records) {
  constexpr std::int64_t part_bytes_max = 64;
  const std::int64_t most = record_gaps_max * records.bytes;
  const auto parts = static_cast<std::int64_t>(records.parts.size());
  return parts > 1 && records.bytes <= part_bytes_max * parts && !records.loops.empty() &&
         records.source_span <= most && records.target_span <= most &&
         records.source_span <= record_bytes_max &&
         records.loops[0].target_stride >= records.target_span;
}

}  // namespace

bool plan_tile(const Work& work, const std::byte* source, const std::byte* target,
               const KernelTuning& tuning, std::vector<KernelPlan>& plans) {
  if (work.loops.size() > kernel_loops_max) return false;
  TileShape shape({work, work.element_bytes, {}}, tuning);
  KernelPlan plan;
  if (!shape.choose_runs() || !TilePlanner(shape, tuning).plan(source, target, plan)) {
    return false;
  }
  plans.push_back(plan);
  return true;
}

bool plan_record_tile(std::span<const Work> works, const std::byte* source, const std::byte* target,
                      const KernelTuning& tuning, std::vector<KernelPlan>& plans) {
  RecordParts records;
  if (tuning.tiles == 0 || !view_parts(works, records)) return false;
  const std::int64_t unit = unit_of(records, source, target);
  for (std::size_t left = loops_within(records, unit); left > 0; --left) absorb_loop(records);
  if (are_records(records) && split_first_loop(records, unit)) absorb_loop(records);
  if (!are_records(records) || records.loops.size() > kernel_loops_max) return false;
  const Work work{records.target_span, records.source_offset, records.target_offset, records.loops};
  TileShape shape({work, records.source_span, records.parts}, tuning);
  if (!shape.choose_runs() || shape.work().element_bytes / unit > shuffle_units_max) return false;
  KernelPlan plan;
  if (!TilePlanner(shape, tuning).plan(source, target, plan)) return false;
  fill_table(records.parts, plan.element_bytes, plan.units);
  plans.push_back(plan);
  return true;
}

std::string explain_tile(const KernelPlan& plan) {
  const TilePlan& tile = plan.tile;
  std::string elements = "elements of " + std::to_string(tile.element_bytes) + " bytes";
  if (tile.shuffled) {
    elements = "records of " + std::to_string(tile.source_bytes) + " bytes to records of " +
               std::to_string(tile.element_bytes) + " bytes";
  }
  return "tile of " + std::to_string(tile.tile_p) + " x " + std::to_string(tile.tile_q) + " x " +
         std::to_string(tile.tile_r) + " " + elements + " in units of " +
         std::to_string(plan.element_bytes) + ", margin " + std::to_string(tile.margin) +
         (tile.kind == TileKind::joined ? ", joined, " : ", ") + std::to_string(plan.blocks) +
         " blocks";
}

}  // namespace tranship::gpu
