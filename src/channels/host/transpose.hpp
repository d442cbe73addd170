// Transposes in registers, written once in vector extensions and compiled for each instruction
// set by the file that includes this one.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "channels/host/interleave.hpp"

namespace tranship::host {
namespace {

/// Offsets that are multiples of a number.
struct Multiples {
  std::int64_t pitch;
  TRANSHIP_INLINE std::int64_t operator[](std::int64_t k) const { return k * pitch; }
  TRANSHIP_INLINE Multiples from(std::int64_t) const { return *this; }
};

/// Offsets from a list.
struct Listed {
  const std::int64_t* offsets;
  TRANSHIP_INLINE std::int64_t operator[](std::int64_t k) const { return offsets[k]; }
  TRANSHIP_INLINE Listed from(std::int64_t k) const { return {offsets + k}; }
};

/// A square of elements, `width` rows of `width`, one row in a vector register.
template <typename T, int width>
struct Square {
  using Row [[gnu::vector_size(width * sizeof(T))]] = T;

  /// Elements in 128 bits, or in a shorter row: shuffles inside such a lane are the cheap ones.
  static constexpr int lane = std::min(static_cast<int>(16 / sizeof(T)), width);

  template <int first, std::size_t... j>
  TRANSHIP_INLINE static void interleave(Row& a, Row& b, std::index_sequence<j...>) {
    constexpr auto from = [](int at) {
      return at / lane * lane + first + at % lane / 2 + (at % 2 == 0 ? 0 : width);
    };
    a = __builtin_shufflevector(a, b, from(static_cast<int>(j))...);
  }

  template <int block, std::size_t... j>
  TRANSHIP_INLINE static void swap(Row& a, Row& b, std::index_sequence<j...>) {
    constexpr auto low = [](int at) { return (at & block) != 0 ? width + at - block : at; };
    constexpr auto high = [](int at) { return (at & block) != 0 ? width + at : at + block; };
    const Row first = __builtin_shufflevector(a, b, low(static_cast<int>(j))...);
    b = __builtin_shufflevector(a, b, high(static_cast<int>(j))...);
    a = first;
  }

  /// Transposes inside the lanes of `lane` rows: perfect shuffles of the rows.
  TRANSHIP_INLINE static void transpose_lanes(Row* rows) {
    constexpr auto all = std::make_index_sequence<width>();
    for (int stage = 1; stage < lane; stage *= 2) {
      Row shuffled[lane];
      for (int k = 0; k < lane / 2; ++k) {
        shuffled[2 * k] = rows[k];
        shuffled[2 * k + 1] = rows[k];
        Row partner = rows[k + lane / 2];
        interleave<0>(shuffled[2 * k], partner, all);
        interleave<lane / 2>(shuffled[2 * k + 1], partner, all);
      }
      for (int k = 0; k < lane; ++k) rows[k] = shuffled[k];
    }
  }

  template <int block>
  TRANSHIP_INLINE static void swap_blocks(Row* rows) {
    if constexpr (block < width) {
      constexpr auto all = std::make_index_sequence<width>();
      for (int k = 0; k < width; ++k) {
        if ((k & block) == 0) swap<block>(rows[k], rows[k + block], all);
      }
      swap_blocks<2 * block>(rows);
    }
  }

  /// Copies a square whose rows begin at `source` plus each of `sources`, and whose columns become
  /// rows at `target` plus each of `targets`.
  template <typename Sources, typename Targets>
  TRANSHIP_INLINE static void copy(const std::byte* source, Sources sources, std::byte* target,
                                   Targets targets) {
    Row rows[width];
#pragma GCC unroll 16
    for (int k = 0; k < width; ++k) std::memcpy(&rows[k], source + sources[k], sizeof(Row));
#pragma GCC unroll 16
    for (int k = 0; k < width; k += lane) transpose_lanes(rows + k);
    swap_blocks<lane>(rows);
#pragma GCC unroll 16
    for (int k = 0; k < width; ++k) std::memcpy(target + targets[k], &rows[k], sizeof(Row));
  }
};

/// Elements of 16 bytes fill a lane: there is nothing to shuffle, but a cache line is four wide.
struct Wide {
  std::byte content[16];
};

template <>
struct Square<Wide, 4> {
  static constexpr int lane = 4;

  template <typename Sources, typename Targets>
  TRANSHIP_INLINE static void copy(const std::byte* source, Sources sources, std::byte* target,
                                   Targets targets) {
    const std::byte* from[4];
    std::byte* to[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      from[k] = source + sources[k];
      to[k] = target + targets[k];
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        std::memcpy(to[j] + i * 16, from[i] + j * 16, 16);
      }
    }
  }
};

/// Elements of 3 bytes: four of them fill a lane once each has a byte of padding.
struct Triple {
  std::byte content[3];
};

template <>
struct Square<Triple, 4> {
  static constexpr int lane = 4;

  using Padded = Square<std::uint32_t, 4>;
  using Bytes [[gnu::vector_size(16)]] = std::uint8_t;

  /// Reads four elements: exactly their 12 bytes.
  TRANSHIP_INLINE static Padded::Row load(const std::byte* source) {
    std::uint64_t low;
    std::uint32_t high;
    std::memcpy(&low, source, sizeof low);
    std::memcpy(&high, source + sizeof low, sizeof high);
    using Pair [[gnu::vector_size(16)]] = std::uint64_t;
    const auto packed = std::bit_cast<Bytes>(Pair{low, high});
    return std::bit_cast<Padded::Row>(__builtin_shufflevector(packed, Bytes{}, 0, 1, 2, 16, 3, 4, 5,
                                                              16, 6, 7, 8, 16, 9, 10, 11, 16));
  }

  TRANSHIP_INLINE static void store(Padded::Row row, std::byte* target) {
    const auto padded = std::bit_cast<Bytes>(row);
    const Bytes packed = __builtin_shufflevector(padded, Bytes{}, 0, 1, 2, 4, 5, 6, 8, 9, 10, 12,
                                                 13, 14, 16, 16, 16, 16);
    std::memcpy(target, &packed, 8);
    std::memcpy(target + 8, reinterpret_cast<const std::byte*>(&packed) + 8, 4);
  }

  template <typename Sources, typename Targets>
  TRANSHIP_INLINE static void copy(const std::byte* source, Sources sources, std::byte* target,
                                   Targets targets) {
    Padded::Row rows[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) rows[k] = load(source + sources[k]);
    Padded::transpose_lanes(rows);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) store(rows[k], target + targets[k]);
  }
};

/// Copies a grid of at least `width` rows and columns. The last squares overlap the ones before.
template <typename T, int width, typename Sources, typename Targets>
TRANSHIP_INLINE void transpose_squares(const Grid& grid, Sources sources, Targets targets) {
  constexpr auto bytes = static_cast<std::int64_t>(sizeof(T));
  constexpr bool rows_known = std::is_same_v<Sources, Multiples>;
  constexpr bool columns_known = std::is_same_v<Targets, Multiples>;
  for (std::int64_t i = 0; i < grid.rows; i += width) {
    if (i > grid.rows - width) i = grid.rows - width;
    const std::byte* source =
        grid.source + grid.column_sources[0] + (rows_known ? grid.row_sources[i] : 0);
    std::byte* target =
        grid.target + grid.row_targets[i] + (columns_known ? grid.column_targets[0] : 0);
    for (std::int64_t j = 0; j < grid.columns; j += width) {
      if (j > grid.columns - width) j = grid.columns - width;
      Square<T, width>::copy(source + j * bytes, sources.from(i),
                             target + (columns_known ? targets[j] : 0), targets.from(j));
    }
  }
}

/// Copies a grid whose rows are contiguous in the target and whose columns are in the source by
/// squares of `width`, or of the largest smaller width down to `least` that fits.
template <typename T, int width, int least>
TRANSHIP_INLINE void transpose_grid(const Grid& grid) {
  if constexpr (width > least) {
    if (grid.rows < width || grid.columns < width) {
      return transpose_grid<T, width / 2, least>(grid);
    }
  }
  const Listed sources{grid.row_sources};
  const Listed targets{grid.column_targets};
  if (grid.row_pitch != 0 && grid.column_pitch != 0) {
    transpose_squares<T, width>(grid, Multiples{grid.row_pitch}, Multiples{grid.column_pitch});
  } else if (grid.row_pitch != 0) {
    transpose_squares<T, width>(grid, Multiples{grid.row_pitch}, targets);
  } else if (grid.column_pitch != 0) {
    transpose_squares<T, width>(grid, sources, Multiples{grid.column_pitch});
  } else {
    transpose_squares<T, width>(grid, sources, targets);
  }
}

}  // namespace
}  // namespace tranship::host
