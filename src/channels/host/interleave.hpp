// Copies between a few contiguous rows and records made of one element of each: a grid with one
// short axis. Written in vector extensions, like transpose.hpp.
#pragma once

#include <bit>
#include <cstring>
#include <utility>

#include "channels/host/kernels.hpp"

#define TRANSHIP_INLINE [[gnu::always_inline]] inline

namespace tranship::host {
namespace {

/// Records of `fields` elements, `width` of them at a time in `padded` registers, each of which
/// holds `width / padded` records of `padded` elements. One perfect shuffle of the registers
/// rotates the bits of an element's number (register, lane) by one, so that log2(padded) of them
/// turn rows into records and log2(width) records into rows.
template <typename T, int fields>
struct Records {
  static constexpr int width = static_cast<int>(16 / sizeof(T));
  static constexpr int padded = static_cast<int>(std::bit_ceil(static_cast<unsigned>(fields)));
  static constexpr int per_register = width / padded;
  static constexpr auto bytes = static_cast<std::int64_t>(sizeof(T));
  static constexpr std::int64_t register_bytes = per_register * fields * bytes;
  static constexpr auto all = std::make_index_sequence<static_cast<std::size_t>(width)>();

  using Row [[gnu::vector_size(16)]] = T;

  template <std::size_t... j>
  TRANSHIP_INLINE static void pack(Row& row, std::index_sequence<j...>) {
    constexpr auto from = [](int at) {
      return at < per_register * fields ? at / fields * padded + at % fields : at;
    };
    row = __builtin_shufflevector(row, row, from(static_cast<int>(j))...);
  }

  template <std::size_t... j>
  TRANSHIP_INLINE static void unpack(Row& row, std::index_sequence<j...>) {
    constexpr auto from = [](int at) {
      return at % padded < fields ? at / padded * fields + at % padded : at;
    };
    row = __builtin_shufflevector(row, row, from(static_cast<int>(j))...);
  }

  template <std::size_t... j>
  TRANSHIP_INLINE static void shuffle(const Row* rows, Row* shuffled, std::index_sequence<j...>) {
    constexpr auto low = [](int at) { return at / 2 + (at % 2 == 0 ? 0 : width); };
    constexpr auto high = [](int at) { return (at + width) / 2 + (at % 2 == 0 ? 0 : width); };
    for (int k = 0; k < padded / 2; ++k) {
      const Row& a = rows[k];
      const Row& b = rows[k + padded / 2];
      shuffled[2 * k] = __builtin_shufflevector(a, b, low(static_cast<int>(j))...);
      shuffled[2 * k + 1] = __builtin_shufflevector(a, b, high(static_cast<int>(j))...);
    }
  }

  template <int stages>
  TRANSHIP_INLINE static void shuffle_stages(Row* rows) {
#pragma GCC unroll 16
    for (int stage = 1; stage < stages; stage *= 2) {
      Row shuffled[padded];
      shuffle(rows, shuffled, all);
#pragma GCC unroll 16
      for (int k = 0; k < padded; ++k) rows[k] = shuffled[k];
    }
  }

  /// Rows of the source become records of the target, one right behind the other. A register's
  /// unused end is written too, and then overwritten by what follows. Returns how many were done.
  TRANSHIP_INLINE static std::int64_t join(const Grid& grid) {
    std::int64_t at = 0;
    for (; (grid.columns - at) * fields * bytes >= (padded - 1) * register_bytes + 16;
         at += width) {
      Row rows[padded] = {};
#pragma GCC unroll 16
      for (int k = 0; k < fields; ++k) {
        std::memcpy(&rows[k], grid.source + grid.row_sources[k] + at * bytes, 16);
      }
      shuffle_stages<padded>(rows);
      std::byte* target = grid.target + at * fields * bytes;
#pragma GCC unroll 16
      for (int k = 0; k < padded; ++k) {
        if constexpr (fields != padded) pack(rows[k], all);
        std::memcpy(target + k * register_bytes, &rows[k], 16);
      }
    }
    return at;
  }

  /// Records of the source, one right behind the other, become rows of the target.
  TRANSHIP_INLINE static std::int64_t split(const Grid& grid) {
    std::int64_t at = 0;
    for (; (grid.rows - at) * fields * bytes >= (padded - 1) * register_bytes + 16; at += width) {
      Row rows[padded];
      const std::byte* source = grid.source + at * fields * bytes;
#pragma GCC unroll 16
      for (int k = 0; k < padded; ++k) {
        std::memcpy(&rows[k], source + k * register_bytes, 16);
        if constexpr (fields != padded) unpack(rows[k], all);
      }
      shuffle_stages<width>(rows);
#pragma GCC unroll 16
      for (int k = 0; k < fields; ++k) {
        std::memcpy(grid.target + grid.column_targets[k] + at * bytes, &rows[k], 16);
      }
    }
    return at;
  }

  TRANSHIP_INLINE static void copy(const Grid& grid) {
    const bool joins = grid.rows < grid.columns;
    const std::int64_t records = joins ? grid.columns : grid.rows;
    for (std::int64_t at = joins ? join(grid) : split(grid); at < records; ++at) {
      for (int k = 0; k < fields; ++k) {
        if (joins) {
          std::memcpy(grid.target + (at * fields + k) * bytes,
                      grid.source + grid.row_sources[k] + at * bytes, sizeof(T));
        } else {
          std::memcpy(grid.target + grid.column_targets[k] + at * bytes,
                      grid.source + (at * fields + k) * bytes, sizeof(T));
        }
      }
    }
  }
};

/// Copies a grid with 2 to 8 rows or columns, and any number of the other, whose rows are
/// contiguous in the target and whose columns are in the source, and whose records lie one right
/// behind the other.
template <typename T>
TRANSHIP_INLINE void interleave_grid(const Grid& grid) {
  switch (grid.rows < grid.columns ? grid.rows : grid.columns) {
    case 2: return Records<T, 2>::copy(grid);
    case 3: return Records<T, 3>::copy(grid);
    default: break;
  }
  if constexpr (sizeof(T) <= 2) {
    switch (grid.rows < grid.columns ? grid.rows : grid.columns) {
      case 4: return Records<T, 4>::copy(grid);
      case 5: return Records<T, 5>::copy(grid);
      case 6: return Records<T, 6>::copy(grid);
      case 7: return Records<T, 7>::copy(grid);
      case 8:
        if constexpr (sizeof(T) == 1) return Records<T, 8>::copy(grid);
        break;
      default: break;
    }
  }
}

}  // namespace
}  // namespace tranship::host
