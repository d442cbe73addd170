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

/// Copies a grid element by element, along its longer axis, from point `first` of that axis on.
template <typename T>
TRANSHIP_INLINE void copy_thin(const Grid& grid, std::int64_t first) {
  constexpr auto bytes = static_cast<std::int64_t>(sizeof(T));
  const bool along_0 = grid.extent_0 >= grid.extent_1;
  const std::int64_t rows = along_0 ? grid.extent_1 : grid.extent_0;
  const std::int64_t columns = along_0 ? grid.extent_0 : grid.extent_1;
  const std::int64_t source_step = along_0 ? grid.source_0 : bytes;
  const std::int64_t target_step = along_0 ? bytes : grid.target_1;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::byte* source = grid.source + row * (along_0 ? bytes : grid.source_0);
    std::byte* target = grid.target + row * (along_0 ? grid.target_1 : bytes);
    source += first * source_step;
    target += first * target_step;
    std::int64_t left = columns - first;
    for (; left >= 4; left -= 4) {
      std::memcpy(target, source, sizeof(T));
      std::memcpy(target + target_step, source + source_step, sizeof(T));
      std::memcpy(target + 2 * target_step, source + 2 * source_step, sizeof(T));
      std::memcpy(target + 3 * target_step, source + 3 * source_step, sizeof(T));
      source += 4 * source_step;
      target += 4 * target_step;
    }
    for (; left > 0; --left) {
      std::memcpy(target, source, sizeof(T));
      source += source_step;
      target += target_step;
    }
  }
}

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
    for (; (grid.extent_1 - at) * fields * bytes >= (padded - 1) * register_bytes + 16;
         at += width) {
      Row rows[padded] = {};
#pragma GCC unroll 16
      for (int k = 0; k < fields; ++k) {
        std::memcpy(&rows[k], grid.source + k * grid.source_0 + at * bytes, 16);
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
    for (; (grid.extent_0 - at) * fields * bytes >= (padded - 1) * register_bytes + 16;
         at += width) {
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
        std::memcpy(grid.target + k * grid.target_1 + at * bytes, &rows[k], 16);
      }
    }
    return at;
  }

  TRANSHIP_INLINE static std::int64_t copy(const Grid& grid) {
    if (grid.extent_0 == fields && grid.target_1 == fields * bytes) return join(grid);
    if (grid.extent_1 == fields && grid.source_0 == fields * bytes) return split(grid);
    return 0;
  }
};

/// Copies a grid of which one axis is shorter than a vector register: records of few elements in
/// registers where they are dense, all else one by one.
template <typename T, bool shuffles_bytes>
TRANSHIP_INLINE void transpose_thin(const Grid& grid) {
  std::int64_t done = 0;
  if constexpr (shuffles_bytes && sizeof(T) <= 4) {
    switch (grid.extent_0 < grid.extent_1 ? grid.extent_0 : grid.extent_1) {
      case 2: done = Records<T, 2>::copy(grid); break;
      case 3: done = Records<T, 3>::copy(grid); break;
      case 4:
        if constexpr (sizeof(T) <= 2) done = Records<T, 4>::copy(grid);
        break;
      case 5:
        if constexpr (sizeof(T) <= 2) done = Records<T, 5>::copy(grid);
        break;
      case 6:
        if constexpr (sizeof(T) <= 2) done = Records<T, 6>::copy(grid);
        break;
      case 7:
        if constexpr (sizeof(T) <= 2) done = Records<T, 7>::copy(grid);
        break;
      case 8:
        if constexpr (sizeof(T) <= 1) done = Records<T, 8>::copy(grid);
        break;
      default: break;
    }
  }
  copy_thin<T>(grid, done);
}

}  // namespace
}  // namespace tranship::host
