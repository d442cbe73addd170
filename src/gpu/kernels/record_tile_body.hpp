// Kernel body for tiles of records whose parts lie in another order or with other gaps on each
// side. Source runs come to shared memory as in tile_body.hpp. Where the units of a target vector
// lie in shared memory is read from a table: `load_table`, barrier, `widen_table` beside
// `load_tile`, barrier, `store_records`. The table has the units of one record or, where target
// runs follow each other (joined), of one run, and then as many units more as a vector has, so that
// no vector has to look for the end of its record.
#pragma once

#include "gpu/kernels/tile_body.hpp"
#include "gpu/kernels/unit_table_body.hpp"

namespace tranship::gpu {

constexpr std::uint32_t entry_bytes = sizeof(std::uint16_t);

TRANSHIP_DEVICE void write_entry(std::byte* table, std::uint32_t number, std::uint32_t value) {
  Words<2> entry{};
  entry.word[0] = value;
  write(table + number * entry_bytes, entry);
}

/// First phase, after the table of one record is in shared memory: writes where each unit of a
/// period lies relative to its first one, and which units from each one of a record on are no gaps.
template <int unit_bytes>
TRANSHIP_DEVICE void widen_table(const TilePlan& plan, std::uint32_t thread, std::byte* shared) {
  constexpr std::uint32_t units = 16 / unit_bytes;
  const std::byte* record = shared + plan.table_at;
  const std::uint32_t period = plan.period.divisor;
  for (std::uint32_t k = thread; k < period + units; k += kernel_threads) {
    const std::uint32_t turn = divide(k, plan.period);
    const std::uint32_t position = divide(k - turn * period, plan.parts);
    std::uint32_t part = k - turn * period - position * plan.parts.divisor;
    write_entry(shared + plan.wide_at, k,
                turn * static_cast<std::uint32_t>(plan.period_step) +
                    position * static_cast<std::uint32_t>(plan.pitch) +
                    find_unit(record, part).byte);
    if (plan.moves_at == 0 || k >= plan.parts.divisor) continue;
    std::uint32_t moves = 0;
    for (std::uint32_t j = 0; j < units; ++j) {
      moves |= find_unit(record, part).moves ? 1u << j : 0u;
      part = part + 1 == plan.parts.divisor ? 0 : part + 1;
    }
    write_entry(shared + plan.moves_at, k, moves);
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

/// Second phase: writes the tile's target runs from shared memory.
template <int unit_bytes>
TRANSHIP_DEVICE void store_records(const TilePlan& plan, const TilePlace& place,
                                   std::uint32_t thread, const std::int64_t* rows,
                                   const std::byte* shared) {
  constexpr int units = 16 / unit_bytes;
  constexpr std::uint32_t whole = (1u << units) - 1;
  const bool joins = plan.kind == TileKind::joined;
  const auto all =
      tile_vectors<unit_bytes>(plan, place, static_cast<std::int32_t>(plan.parts.divisor));
  const auto period = static_cast<std::int32_t>(plan.period.divisor);
  const std::int64_t* targets = rows + plan.rows_p * plan.tile_r;
  for (std::uint32_t number = thread; number < all.count; number += kernel_threads) {
    const TileVector vector = tile_vector(plan, place, all, targets, joins, number);
    if (!vector.exists) continue;
    // The period that the vector begins in; rounded down if negative.
    const std::int32_t turn =
        static_cast<std::int32_t>(
            divide(static_cast<std::uint32_t>(vector.unit + units * period), plan.period)) -
        units;
    const std::int32_t part = vector.unit - turn * period;
    // Both products may exceed 31 bits in a long run; their sum is a place in the tile.
    const std::uint32_t row =
        static_cast<std::uint32_t>(vector.r * plan.rows_p - place.first_p) *
            static_cast<std::uint32_t>(plan.pitch) +
        static_cast<std::uint32_t>(turn) * static_cast<std::uint32_t>(plan.period_step);
    const std::byte* from =
        shared + static_cast<std::int32_t>(row) + static_cast<std::int32_t>(vector.q * plan.step_q);
    const std::byte* table = shared + plan.wide_at + part * static_cast<int>(entry_bytes);
    const auto unit_of = [&](int j) {
      const auto at = static_cast<std::int32_t>(read<2>(table + j * 2).word[0]);
      return read<unit_bytes>(from + at);
    };
    std::uint32_t moves = whole;
    if (plan.moves_at != 0) {
      const auto unit = static_cast<std::uint32_t>(part);
      const std::uint32_t in_record = unit - divide(unit, plan.parts) * plan.parts.divisor;
      moves = read<2>(shared + plan.moves_at + in_record * entry_bytes).word[0];
    }
    Words<unit_bytes> held[units];
    if (vector.unit >= 0 && vector.unit + units <= vector.end) {
      TRANSHIP_UNROLL
      for (int j = 0; j < units; ++j) held[j] = unit_of(j);
    } else {
      const std::int32_t first = vector.unit < 0 ? -vector.unit : 0;
      const std::int32_t left = vector.end - vector.unit;
      moves &= (1u << (left < units ? left : units)) - (1u << first);
      TRANSHIP_UNROLL
      for (int j = 0; j < units; ++j) {
        held[j] = Words<unit_bytes>{};
        if ((moves >> j & 1) != 0) held[j] = unit_of(j);
      }
    }
    std::byte* to = vector.run + std::int64_t{vector.unit} * unit_bytes;
    if (moves == whole) {
      write(to, joined<unit_bytes>(held));
    } else {
      write_units<unit_bytes, 16>(to, joined<unit_bytes>(held), 0, moves);
    }
  }
}

}  // namespace tranship::gpu
