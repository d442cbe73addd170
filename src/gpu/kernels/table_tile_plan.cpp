#include "gpu/kernels/table_tile_plan.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "base/check.hpp"
#include "gpu/kernels/kernel_body.hpp"
#include "gpu/kernels/record_parts.hpp"

namespace tranship::gpu {
namespace {

/// Widest unit, in bytes, for which there is a kernel.
constexpr std::int64_t unit_bytes_max = 8;
/// Most loops of a nest that are looked at; a nest with more is carried otherwise.
constexpr std::size_t loops_max = kernel_loops_max;
/// Largest share of gaps in a period of the target and in a source row, in their spans over their
/// bytes.
constexpr std::int64_t gaps_max = 4;
/// Bytes that are read or written in vain at the ends of a run, where it begins off the sectors.
constexpr double read_end_bytes = 32;
constexpr double aligned_read_end_bytes = 16;
constexpr double write_end_bytes = 64;
constexpr double aligned_write_end_bytes = 32;
constexpr double margin_end_bytes = 24;
/// Bytes that could be moved in the time that a block takes beside moving its own.
constexpr double block_bytes = 2048;
/// Bytes of shared memory that hold where a row begins, and what its loops add.
constexpr std::int64_t row_bytes = 8;
constexpr std::int64_t base_bytes = 4;
/// Blocks that occupy a large GPU.
constexpr std::int64_t blocks_wanted = 1024;
/// A kernel counts the units of a run, and those of the tiles that reach beyond it, in 31 bits.
constexpr std::int64_t run_bytes_max = std::int64_t{1} << 29;
constexpr std::int64_t extent_max = (std::int64_t{1} << 31) - 1;

std::int64_t round_up(std::int64_t number, std::int64_t step) {
  return ceil_divide(number, step) * step;
}

/// What a box does with a loop.
enum class Role : std::uint8_t {
  outside,  ///< a block has one index
  period,   ///< within a period of the target run
  chunk,    ///< along the target run, from period to period
  across,   ///< along source rows, from target run to target run
  rows,     ///< along neither: more source rows, and more target runs
};

/// A box: the roles of the loops, and how many indices of each it has.
struct Box {
  std::array<Role, loops_max> roles{};
  std::array<bool, loops_max> in_row{};  ///< whether a source row goes along the loop
  int chunk = -1;                        ///< the loop of that role
  int last_in_row = -1;                  ///< the loop whose indices lie farthest apart in a row
  int more = -1;                         ///< the loop of role `rows`
  std::int64_t period_bytes = 0;         ///< of the target, from position to position
  std::int64_t moved_bytes = 0;          ///< of a period
  std::int64_t row_step = 0;             ///< bytes of a row for each index of `last_in_row`
  std::int64_t row_inner = 0;            ///< bytes of a row for one index of it
  std::int64_t rows_in = 1;              ///< source rows of one position
  std::int64_t across_inner = 1;         ///< target runs for each index of the last such loop
  std::int64_t chunks = 1;               ///< positions that a tile writes
  std::int64_t margin = 0;               ///< positions that it holds before those
  std::int64_t across = 1;               ///< target runs
  std::int64_t more_rows = 1;            ///< indices of the loop `more`
  double cost = std::numeric_limits<double>::infinity();  ///< bytes moved for each byte

  bool gaps() const { return moved_bytes < period_bytes; }
  bool by_rows() const { return chunk >= 0 && !in_row[static_cast<std::size_t>(chunk)]; }
};

/// Finds the box whose memory traffic is least.
class BoxSearch {
 public:
  BoxSearch(const RecordParts& records, const std::byte* source, const std::byte* target,
            const KernelTuning& tuning)
      : records_(records), loops_(records.loops) {
    std::int64_t bits = part_bits(records.parts) | address_bits(source, records.source_offset) |
                        address_bits(target, records.target_offset);
    source_bits_ = address_bits(source, records.source_offset);
    target_bits_ = address_bits(target, records.target_offset);
    for (const Loop& loop : loops_) bits |= loop.source_stride | loop.target_stride;
    unit_ = std::min(common_bytes(bits), unit_bytes_max);
    word_ = std::max<std::int64_t>(unit_, 4);
    std::int64_t payload = records.bytes;
    for (const Loop& loop : loops_) payload *= loop.extent;
    const std::int64_t most = unit_ < 4 ? tuning.tile_bytes * 4 / 3 : tuning.tile_bytes;
    budget_ = std::clamp<std::int64_t>(payload / blocks_wanted, 4096, most);
    order_.resize(loops_.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      return std::llabs(loops_[a].source_stride) < std::llabs(loops_[b].source_stride);
    });
  }

  Box best() {
    Box best;
    const std::size_t target_loops = chain_in_target();
    for (std::size_t along = 0; along <= target_loops; ++along) {
      for (std::size_t in_row = 0; in_row <= loops_.size(); ++in_row) {
        Box box;
        if (!assign(along, in_row, box)) continue;
        search_extents(box, best);
      }
    }
    if (best.more >= 0) best.roles[index(best.more)] = Role::rows;
    return best;
  }

  std::int64_t unit() const { return unit_; }
  const std::vector<std::size_t>& order() const { return order_; }
  std::int64_t pitch_of(std::int64_t bytes) const {
    return (ceil_divide(bytes, word_) | 1) * word_;
  }

  /// Returns the bytes of a row that goes along `count` indices of its last loop.
  static std::int64_t row_bytes_of(const Box& box, std::int64_t count) {
    return box.row_inner + (count - 1) * box.row_step;
  }

  std::int64_t bytes_in_row(const Box& box) const {
    return row_bytes_of(box, last_count(box, box.chunks + box.margin));
  }

  std::int64_t source_rows(const Box& box) const {
    return box.rows_in * (box.by_rows() ? box.chunks + box.margin : 1);
  }

  std::int64_t shared_bytes(const Box& box) const {
    const std::int64_t rows = source_rows(box) * box.more_rows;
    const std::int64_t runs = box.across * box.more_rows;
    return round_up(rows * pitch_of(bytes_in_row(box)), 16) + row_bytes * (rows + runs) +
           base_bytes * runs + tables(box);
  }

  std::int64_t tables(const Box& box) const {
    const std::int64_t units = box.period_bytes / unit_;
    return static_cast<std::int64_t>(sizeof(std::uint16_t)) *
               (3 * units + vector_bytes_max / unit_) +
           16;
  }

  /// Returns the or-ed numbers on which the alignment of any piece of the target depends beside its
  /// own offset.
  std::int64_t piece_bits(const Box& box) const {
    std::int64_t bits = target_bits_;
    for (std::size_t k = 0; k < loops_.size(); ++k) {
      bits |= box.roles[k] == Role::period ? 0 : loops_[k].target_stride;
    }
    return bits;
  }

  /// Largest misalignment of target runs, in bytes, within a sector; 0: all begin at sectors.
  std::int64_t target_end_bytes(const Box& box) const {
    std::int64_t bits = target_bits_;
    for (std::size_t k = 0; k < loops_.size(); ++k) {
      if (box.roles[k] != Role::period && box.roles[k] != Role::chunk) {
        bits |= loops_[k].target_stride;
      }
    }
    return sector_bytes - lowest_bit(bits, sector_bytes);
  }

 private:
  std::size_t index(int loop) const { return static_cast<std::size_t>(loop); }

  std::int64_t last_count(const Box& box, std::int64_t held) const {
    if (box.last_in_row < 0) return 1;
    const std::size_t last = index(box.last_in_row);
    if (box.roles[last] == Role::chunk) return std::min(held, loops_[last].extent);
    if (box.roles[last] == Role::across) return box.across / box.across_inner;
    return loops_[last].extent;
  }

  /// Returns how many loops, fastest in the target first, continue each other there.
  std::size_t chain_in_target() const {
    std::int64_t span = records_.target_span, bytes = records_.bytes;
    std::size_t count = 0;
    while (count < loops_.size()) {
      const Loop& loop = loops_[count];
      if (loop.target_stride > gaps_max * bytes || loop.target_stride < span) break;
      ++count;
      span += (loop.extent - 1) * loop.target_stride;
      bytes *= loop.extent;
      if (span >= run_bytes_max) break;
    }
    return count;
  }

  /// Gives the first `along` loops to the target run, and the `in_row` first ones in the source to
  /// the source rows. Returns false if they make no box.
  bool assign(std::size_t along, std::size_t in_row, Box& box) const {
    box.roles.fill(Role::outside);
    box.period_bytes = records_.target_span;
    box.moved_bytes = records_.bytes;
    for (std::size_t k = 0; k < along; ++k) {
      box.roles[k] = k + 1 < along ? Role::period : Role::chunk;
      if (k + 1 < along) box.moved_bytes *= loops_[k].extent;
    }
    if (along > 0) {
      box.chunk = static_cast<int>(along - 1);
      box.period_bytes = loops_[along - 1].target_stride;
    }
    if (box.period_bytes % unit_ != 0 || box.period_bytes / unit_ > table_units_max) return false;
    return assign_rows(in_row, box) && count_rows(box);
  }

  bool assign_rows(std::size_t in_row, Box& box) const {
    std::int64_t span = records_.source_span, bytes = records_.bytes;
    int loops_across = 0;
    for (std::size_t number = 0; number < in_row; ++number) {
      const std::size_t k = order_[number];
      const Loop& loop = loops_[k];
      const std::int64_t step = std::llabs(loop.source_stride);
      const bool last = number + 1 == in_row;
      if (step == 0 && box.roles[k] == Role::chunk) return false;
      if (step != 0 && (step > gaps_max * bytes || step < span)) return false;
      if (box.roles[k] == Role::outside) {
        box.roles[k] = Role::across;
        if (++loops_across > tile_loops_max) return false;
        if (!last) box.across_inner *= loop.extent;
      }
      box.in_row[k] = true;
      if (last) {
        box.last_in_row = static_cast<int>(k);
        box.row_step = step;
        box.row_inner = span;
      }
      span += (loop.extent - 1) * step;
      bytes *= loop.extent;
      if (!last && span > shared_bytes_max) return false;
    }
    if (in_row == 0) box.row_inner = span;
    return true;
  }

  bool count_rows(Box& box) const {
    int loops_in = 0;
    for (std::size_t k = 0; k < loops_.size(); ++k) {
      if (box.roles[k] != Role::period || box.in_row[k]) continue;
      box.rows_in *= loops_[k].extent;
      if (++loops_in > tile_loops_max || box.rows_in > shared_bytes_max) return false;
    }
    return true;
  }

  bool has_last_across(const Box& box) const {
    return box.last_in_row >= 0 && box.roles[index(box.last_in_row)] == Role::across;
  }

  void search_extents(Box& box, Box& best) const {
    const std::int64_t count = box.chunk < 0 ? 1 : loops_[index(box.chunk)].extent;
    const bool whole =
        box.chunk >= 0 && box.in_row[index(box.chunk)] && box.chunk != box.last_in_row;
    const std::int64_t end_bytes = target_end_bytes(box);
    const std::int64_t step =
        box.chunk < 0 ? 1 : sector_bytes / std::gcd<std::int64_t>(box.period_bytes, sector_bytes);
    const bool last_across = has_last_across(box);
    const std::int64_t across_count = last_across ? loops_[index(box.last_in_row)].extent : 1;
    for (std::int64_t wished = whole ? count : 1;; wished *= 2) {
      std::int64_t chunks = std::min(wished, count);
      if (chunks < count) {
        chunks = ceil_divide(count, ceil_divide(count, chunks));
        if (chunks > step) chunks = std::min(round_up(chunks, step), count);
      }
      bool fits = false;
      for (std::int64_t across = 1;; across *= 2) {
        std::int64_t some = std::min(across, across_count);
        if (some < across_count) some = ceil_divide(across_count, ceil_divide(across_count, some));
        box.chunks = chunks;
        box.across = box.across_inner * some;
        for (const bool margin : {false, true}) {
          if (margin && (end_bytes == 0 || box.gaps() || chunks == count || chunks % step != 0))
            continue;
          box.margin = margin ? ceil_divide(end_bytes, box.period_bytes) : 0;
          fits |= weigh(box, best);
        }
        if (some == across_count || !fits) break;
      }
      if (chunks == count || !fits) break;
    }
  }

  /// Keeps the box if it is the best. Returns false if it does not fit.
  bool weigh(Box& box, Box& best) const {
    box.more = -1;
    box.more_rows = 1;
    if (shared_bytes(box) > budget_ + tables(box) || box.across > extent_max) return false;
    if (!table_fits(box)) return false;
    add_rows(box);
    const double payload =
        static_cast<double>(box.moved_bytes * box.chunks * box.across * box.more_rows);
    const double rows = static_cast<double>(source_rows(box) * box.more_rows);
    const bool source_aligned = source_end_bits(box) % sector_bytes == 0;
    const double read = rows * (static_cast<double>(bytes_in_row(box)) +
                                (source_aligned ? aligned_read_end_bytes : read_end_bytes));
    const double runs = static_cast<double>(box.across * box.more_rows);
    const double run = static_cast<double>(box.chunks * box.period_bytes) * (box.gaps() ? 2 : 1);
    const bool aligned =
        target_end_bytes(box) == 0 && (box.chunks * box.period_bytes) % sector_bytes == 0;
    const double written = runs * (run + (aligned          ? aligned_write_end_bytes
                                          : box.margin > 0 ? margin_end_bytes
                                                           : write_end_bytes));
    box.cost = (read + written + block_bytes) / payload;
    if (box.cost < best.cost) best = box;
    return true;
  }

  std::int64_t source_end_bits(const Box& box) const {
    std::int64_t bits = source_bits_ | bytes_in_row(box);
    for (std::size_t k = 0; k < loops_.size(); ++k) {
      if (!box.in_row[k]) bits |= loops_[k].source_stride;
    }
    return bits;
  }

  /// Lets small boxes have more rows, along the loop outside that has the least stride.
  void add_rows(Box& box) const {
    const std::int64_t bytes = shared_bytes(box) - tables(box);
    const std::int64_t fit = budget_ / bytes;
    if (fit < 2) return;
    for (std::size_t k = 0; k < loops_.size(); ++k) {
      if (box.roles[k] != Role::outside) continue;
      const std::int64_t some = std::min(fit, loops_[k].extent);
      if (some <= box.more_rows) continue;
      box.more = static_cast<int>(k);
      box.more_rows = ceil_divide(loops_[k].extent, ceil_divide(loops_[k].extent, some));
    }
  }

  /// Returns whether the place of any unit fits an entry of the table.
  bool table_fits(const Box& box) const {
    constexpr std::int64_t most = std::numeric_limits<std::uint16_t>::max();
    const std::int64_t rows = box.rows_in * pitch_of(bytes_in_row(box));
    const std::int64_t periods = vector_bytes_max / box.period_bytes + 2;
    std::int64_t step = 0;
    if (box.by_rows() && loops_[index(box.chunk)].source_stride != 0) step = rows;
    if (box.chunk >= 0 && box.in_row[index(box.chunk)]) {
      step = std::llabs(loops_[index(box.chunk)].source_stride);
    }
    return rows + periods * step < most && rows < most;
  }

  const RecordParts& records_;
  const std::vector<Loop>& loops_;
  std::vector<std::size_t> order_;  ///< the loops, fastest in the source first
  std::int64_t source_bits_ = 0;
  std::int64_t target_bits_ = 0;
  std::int64_t unit_ = 1;
  std::int64_t word_ = 4;
  std::int64_t budget_ = 0;
};

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
      table_.by_rows = !table_.along_rows && loop.source_stride != 0;
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
    table_.last_unit = static_cast<std::int32_t>(((count - 1) * box_.period_bytes + span) / unit_);
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
      if (box_.roles[k] == Role::period && !box_.in_row[k]) {
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
    const std::int64_t bytes = std::int64_t{table_.last_unit} * unit_;
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
        const std::int64_t bytes = lowest_bit(bits | target | left, unit_bytes_max);
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
    at += row_bytes * (rows + runs);
    table_.bases_at = static_cast<std::int32_t>(at);
    at += base_bytes * runs;
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

bool plan_table_tile(std::span<const Work> works, const std::byte* source, const std::byte* target,
                     const KernelTuning& tuning, std::vector<KernelPlan>& plans) {
  RecordParts records;
  if (tuning.tiles == 0 || !view_parts(works, records)) return false;
  if (records.loops.size() > loops_max) return false;
  for (const Loop& loop : records.loops) {
    if (loop.extent > extent_max) return false;
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
