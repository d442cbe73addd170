// Kernel body for boxes of any loops. Source rows come to shared memory as in tile_body.hpp; where
// the units of a target run lie there is read from a table: `table_rows` beside `load_table`,
// barrier, `widen_table` beside `load_tile`, barrier, `store_table`. The table has the units of one
// period of the target run and then as many units more as a vector has, so that no vector has to
// look for the end of its period.
#pragma once

#include "gpu/kernels/table_tile_plan.hpp"
#include "gpu/kernels/tile_body.hpp"

namespace tranship::gpu {

constexpr std::uint32_t entry_bytes = sizeof(std::uint16_t);

TRANSHIP_DEVICE TilePlace locate_table_tile(const TilePlan& plan, const TablePlan& table,
                                            std::uint32_t block, const std::byte* source,
                                            std::byte* target) {
  TilePlace place = enter_tile(plan, block, source, target);
  if (table.along_rows) {
    if (place.first_p < 0) place.first_p = 0;
    place.source += place.first_p * table.source_stride_p;
  }
  place.source +=
      position_offset(plan.loops_q, plan.rank_q, static_cast<std::uint32_t>(place.first_q), true);
  std::int32_t steps = 1;
  if (table.row_grows == RowGrows::across) {
    steps =
        static_cast<std::int32_t>(divide(static_cast<std::uint32_t>(place.width_q), table.inner_q));
  } else if (table.row_grows == RowGrows::along) {
    const std::int32_t end_p = (place.tile_p + 1) * plan.tile_p;
    steps = (end_p < plan.count_p ? end_p : plan.count_p) - place.first_p;
  }
  place.row_bytes = static_cast<std::int32_t>((steps - 1) * plan.step_q) + plan.source_bytes;
  if (table.along_rows && table.source_stride_p < 0) {
    const std::int32_t held = table.row_grows == RowGrows::along ? steps : plan.count_p;
    place.first_at = (1 - held) * static_cast<std::int32_t>(table.source_stride_p);
    place.source -= place.first_at;
  }
  return place;
}

/// Writes the offsets of the tile's source rows, those of its target rows, and where the units of
/// each target row begin in shared memory.
TRANSHIP_DEVICE void table_rows(const TilePlan& plan, const TablePlan& table,
                                const TilePlace& place, std::uint32_t thread, std::int64_t* rows,
                                std::byte* bases) {
  const std::uint32_t held = plan.held_rows.divisor;
  const std::uint32_t source_rows = held * static_cast<std::uint32_t>(plan.tile_r);
  for (std::uint32_t row = thread; row < source_rows; row += kernel_threads) {
    const std::uint32_t r = divide(row, plan.held_rows);
    const std::uint32_t in_r = row - r * held;
    const std::uint32_t number = divide(in_r, table.rows_in);
    const std::int32_t p = place.first_p + static_cast<std::int32_t>(number);
    const bool exists = !table.by_rows || (p >= 0 && p < plan.count_p);
    std::int64_t offset = no_row;
    if (exists && static_cast<std::int32_t>(r) < place.width_r) {
      offset =
          position_offset(plan.loops_p, plan.rank_p, in_r - number * table.rows_in.divisor, true) +
          r * plan.source_stride_r;
      if (table.by_rows) offset += p * table.source_stride_p;
    }
    rows[row] = offset;
  }
  const std::uint32_t target_rows = plan.target_rows.divisor;
  for (std::uint32_t row = thread; row < target_rows; row += kernel_threads) {
    const std::uint32_t r = divide(row, plan.columns);
    const std::uint32_t q = row - r * plan.columns.divisor;
    rows[source_rows + row] = target_row(plan, place, row);
    Words<4> base{};
    base.word[0] = static_cast<std::uint32_t>(position_offset(plan.loops_q, plan.rank_q, q, true)) +
                   r * held * static_cast<std::uint32_t>(plan.pitch);
    write(bases + row * sizeof(std::uint32_t), base);
  }
}

TRANSHIP_DEVICE void write_entry(std::byte* table, std::uint32_t number, std::uint32_t value) {
  Words<2> entry{};
  entry.word[0] = value;
  write(table + number * entry_bytes, entry);
}

/// First phase: copies the table of one period to shared memory.
TRANSHIP_DEVICE void load_table(const TablePlan& table, std::uint32_t thread, std::byte* shared) {
  std::byte* entries = shared + table.table_at;
  const auto count = static_cast<std::uint32_t>(table.entries);
  for (std::uint32_t k = thread; k < count; k += kernel_threads) {
    write_entry(entries, k, table.entry[k]);
  }
}

/// Where a unit of the target comes from.
struct UnitSource {
  std::uint32_t byte;  ///< byte of shared memory, for the first period; 0 for a gap
  bool moves;          ///< false for a gap
};

TRANSHIP_DEVICE UnitSource find_unit(const std::byte* entries, std::uint32_t unit) {
  const std::uint32_t byte = read<2>(entries + unit * entry_bytes).word[0];
  const bool moves = byte != table_gap;
  return {moves ? byte : 0, moves};
}

/// First phase, after the table of one period is in shared memory: writes where each unit lies
/// relative to the first period, and which units from each one of a period on are no gaps.
template <int unit_bytes>
TRANSHIP_DEVICE void widen_table(const TablePlan& table, std::uint32_t thread, std::byte* shared) {
  if (table.in_pieces) return;
  constexpr std::uint32_t units = 16 / unit_bytes;
  const std::byte* entries = shared + table.table_at;
  const std::uint32_t period = table.period.divisor;
  for (std::uint32_t k = thread; k < period + units; k += kernel_threads) {
    const std::uint32_t turn = divide(k, table.period);
    std::uint32_t unit = k - turn * period;
    write_entry(shared + table.wide_at, k,
                turn * static_cast<std::uint32_t>(table.period_step) +
                    static_cast<std::uint32_t>(table.entry_bias) + find_unit(entries, unit).byte);
    if (table.moves_at == 0 || k >= period) continue;
    std::uint32_t moves = 0;
    for (std::uint32_t j = 0; j < units; ++j) {
      moves |= find_unit(entries, unit).moves ? 1u << j : 0u;
      unit = unit + 1 == period ? 0 : unit + 1;
    }
    write_entry(shared + table.moves_at, k, moves);
  }
}

/// Writes those units of `bytes` bytes from byte `at` of a vector on that have a bit in `moves`, in
/// as few accesses as possible.
template <int unit_bytes, int bytes>
TRANSHIP_DEVICE void write_units(std::byte* target, const Words<16>& words, int at,
                                 std::uint32_t moves) {
  constexpr std::uint32_t all = (1u << (bytes / unit_bytes)) - 1;
  const std::uint32_t own = moves >> (at / unit_bytes) & all;
  if (own == all) return write(target + at, extract<bytes>(words, at / bytes));
  if constexpr (bytes > unit_bytes) {
    if (own == 0) return;
    write_units<unit_bytes, bytes / 2>(target, words, at, moves);
    write_units<unit_bytes, bytes / 2>(target, words, at + bytes / 2, moves);
  }
}

/// Returns `bytes` bytes of shared memory at any address; there are as many beyond them.
template <int bytes>
TRANSHIP_DEVICE Words<bytes> read_shared(const std::byte* address) {
  Words<bytes> words{};
#ifdef __CUDA_ARCH__
  constexpr int count = bytes < 4 ? 1 : bytes / 4;
  const auto misaligned = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(address) % 4);
  const std::byte* from = address - misaligned;
  std::uint32_t low = read<4>(from).word[0];
  TRANSHIP_UNROLL
  for (int k = 0; k < count; ++k) {
    const std::uint32_t high = read<4>(from + 4 * k + 4).word[0];
    words.word[k] = __funnelshift_r(low, high, 8 * misaligned);
    low = high;
  }
#else
  TRANSHIP_UNROLL
  for (int j = 0; j < bytes; ++j) insert<1>(words, j, read<1>(address + j));
#endif
  return words;
}

/// Writes the target piece by piece, where it has gaps, or runs too short for vectors. An entry of
/// the table has where a piece lies in shared memory in its lower half; in its upper half where it
/// lies in the target's period, times four, and the binary logarithm of its bytes.
TRANSHIP_DEVICE void store_pieces(const TilePlan& plan, const TablePlan& table,
                                  const TilePlace& place, std::uint32_t thread,
                                  const std::int64_t* rows, const std::byte* shared) {
  const std::int64_t* targets = rows + plan.held_rows.divisor * plan.tile_r;
  const std::int32_t begin_p = place.tile_p * plan.tile_p;
  const std::uint32_t count = table.run_pieces.divisor * plan.target_rows.divisor;
  for (std::uint32_t number = thread; number < count; number += kernel_threads) {
    const std::uint32_t row = divide(number, table.run_pieces);
    const std::uint32_t in_run = number - row * table.run_pieces.divisor;
    const std::uint32_t position = divide(in_run, table.pieces);
    const std::uint32_t piece = in_run - position * table.pieces.divisor;
    const std::int32_t p = begin_p + static_cast<std::int32_t>(position);
    const std::int64_t offset = targets[row];
    if (p >= plan.count_p || offset == no_row) continue;
    const std::uint32_t entry = read<4>(shared + table.table_at + piece * 4).word[0];
    const auto base = static_cast<std::int32_t>(read<4>(shared + table.bases_at + row * 4).word[0]);
    const std::byte* from = shared + base + place.first_at +
                            (p - place.first_p) * table.period_step +
                            static_cast<std::int32_t>(entry & 0xffff);
    std::byte* to = place.target + offset + std::int64_t{p} * plan.element_bytes +
                    static_cast<std::int32_t>(entry >> 18);
    switch (entry >> 16 & 3) {
      case 0: write(to, read<1>(from)); break;
      case 1: write(to, read_shared<2>(from)); break;
      case 2: write(to, read_shared<4>(from)); break;
      default: write(to, read_shared<8>(from)); break;
    }
  }
}

/// Second phase: writes the tile's target runs from shared memory. Neighbouring lanes write so few
/// vectors of a run that they read different banks.
template <int unit_bytes>
TRANSHIP_DEVICE void store_table(const TilePlan& plan, const TablePlan& table,
                                 const TilePlace& place, std::uint32_t thread,
                                 const std::int64_t* rows, const std::byte* shared) {
  if (table.in_pieces) return store_pieces(plan, table, place, thread, rows, shared);
  constexpr int units = 16 / unit_bytes;
  constexpr std::uint32_t whole = (1u << units) - 1;
  constexpr int lanes_log2 = unit_bytes == 1 ? 1 : unit_bytes == 2 ? 2 : 3;
  constexpr std::int32_t units_before = 32;
  const auto period = static_cast<std::int32_t>(table.period.divisor);
  const std::int32_t begin_p = place.tile_p * plan.tile_p;
  const std::int32_t tile_units = plan.tile_p * period;
  // Units count from the tile's beginning. Those of the run from `begin` to `end` are written.
  const std::int64_t before = std::int64_t{begin_p} * period;
  const std::int64_t after = table.last_unit - before;
  const std::int32_t begin =
      !table.overlaps ? 0
                      : -static_cast<std::int32_t>(before < units_before ? before : units_before);
  const std::int32_t end = after < tile_units ? static_cast<std::int32_t>(after) : tile_units;
  const std::int64_t* targets = rows + plan.held_rows.divisor * plan.tile_r;
  const auto groups =
      static_cast<std::uint32_t>(plan.row_vectors + (1 << lanes_log2) - 1) >> lanes_log2;
  const std::uint32_t count = (groups * plan.target_rows.divisor) << lanes_log2;
  for (std::uint32_t number = thread; number < count; number += kernel_threads) {
    const std::uint32_t rest = number >> lanes_log2;
    const std::uint32_t group = divide(rest, plan.target_rows);
    const std::uint32_t row = rest - group * plan.target_rows.divisor;
    const auto vector =
        static_cast<std::int32_t>(group << lanes_log2 | (number & ((1u << lanes_log2) - 1)));
    const std::int64_t offset = targets[row];
    if (vector >= plan.row_vectors || offset == no_row) continue;
    std::byte* run = place.target + offset + before * unit_bytes;
    const auto misaligned = static_cast<std::int32_t>(reinterpret_cast<std::uintptr_t>(run) %
                                                      (table.overlaps ? sector_bytes : 16));
    const std::int32_t unit = vector * units - misaligned / unit_bytes;
    if (unit + units <= begin || unit >= end) continue;
    // The period that the vector begins in; rounded down if negative.
    const std::int32_t turn =
        static_cast<std::int32_t>(
            divide(static_cast<std::uint32_t>(unit + units_before * period), table.period)) -
        units_before;
    const std::int32_t part = unit - turn * period;
    std::uint32_t moves = whole;
    if (table.moves_at != 0) {
      moves = read<2>(shared + table.moves_at + part * static_cast<int>(entry_bytes)).word[0];
    }
    if (unit < begin || unit + units > end) {
      const std::int32_t first = unit < begin ? begin - unit : 0;
      const std::int32_t left = end - unit;
      moves &= (1u << (left < units ? left : units)) - (1u << first);
    }
    const auto base = static_cast<std::int32_t>(read<4>(shared + table.bases_at + row * 4).word[0]);
    const std::byte* from = shared + base + place.first_at - table.entry_bias +
                            (begin_p + turn - place.first_p) * table.period_step;
    const std::byte* entries = shared + table.wide_at + part * static_cast<int>(entry_bytes);
    const auto unit_of = [&](int j) {
      const auto at = static_cast<std::int32_t>(read<2>(entries + j * 2).word[0]);
      return read<unit_bytes>(from + at);
    };
    Words<unit_bytes> held[units];
    std::byte* to = run + unit * unit_bytes;
    if (moves == whole) {
      TRANSHIP_UNROLL
      for (int j = 0; j < units; ++j) held[j] = unit_of(j);
      write(to, joined<unit_bytes>(held));
    } else {
      TRANSHIP_UNROLL
      for (int j = 0; j < units; ++j) {
        held[j] = Words<unit_bytes>{};
        if ((moves >> j & 1) != 0) held[j] = unit_of(j);
      }
      write_units<unit_bytes, 16>(to, joined<unit_bytes>(held), 0, moves);
    }
  }
}

}  // namespace tranship::gpu
