// Transposes in registers, written once in vector extensions and compiled for each instruction
// set by the file that includes this one.
#pragma once

#include <cstring>
#include <utility>

#include "channels/host/interleave.hpp"

namespace tranship::host {
namespace {

/// A square of elements, `width` rows of `width`, one row in a vector register.
template <typename T, int width>
struct Square {
  using Row [[gnu::vector_size(width * sizeof(T))]] = T;

  /// Elements in 128 bits: shuffles inside such a lane are the cheap ones.
  static constexpr int lane = static_cast<int>(16 / sizeof(T));

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

  TRANSHIP_INLINE static void copy(const std::byte* source, std::int64_t source_pitch,
                                   std::byte* target, std::int64_t target_pitch) {
    Row rows[width];
#pragma GCC unroll 16
    for (int k = 0; k < width; ++k) std::memcpy(&rows[k], source + k * source_pitch, sizeof(Row));
#pragma GCC unroll 16
    for (int k = 0; k < width; k += lane) transpose_lanes(rows + k);
    swap_blocks<lane>(rows);
#pragma GCC unroll 16
    for (int k = 0; k < width; ++k) std::memcpy(target + k * target_pitch, &rows[k], sizeof(Row));
  }
};

/// Elements of 16 bytes fill a lane: there is nothing to shuffle, but a cache line is four wide.
struct Wide {
  std::byte content[16];
};

template <>
struct Square<Wide, 4> {
  static constexpr int lane = 4;

  TRANSHIP_INLINE static void copy(const std::byte* source, std::int64_t source_pitch,
                                   std::byte* target, std::int64_t target_pitch) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        std::memcpy(target + j * target_pitch + i * 16, source + i * source_pitch + j * 16, 16);
      }
    }
  }
};

/// Copies a grid of at least `width` elements each way. The last squares overlap the ones before.
template <typename T, int width>
TRANSHIP_INLINE void transpose_squares(const Grid& grid) {
  constexpr auto bytes = static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t i = 0; i < grid.extent_0; i += width) {
    if (i > grid.extent_0 - width) i = grid.extent_0 - width;
    const std::byte* source = grid.source + i * grid.source_0;
    std::byte* target = grid.target + i * bytes;
    for (std::int64_t j = 0; j < grid.extent_1; j += width) {
      if (j > grid.extent_1 - width) j = grid.extent_1 - width;
      Square<T, width>::copy(source + j * bytes, grid.source_0, target + j * grid.target_1,
                             grid.target_1);
    }
  }
}

/// The same for rows whose distance maps them all to a few sets of the L1 cache. Where a square is
/// narrower than a cache line, each line would be fetched again for every square in it; therefore
/// panels of `width` rows are gathered first.
template <typename T, int width>
TRANSHIP_INLINE void transpose_packed(const Grid& grid) {
  constexpr auto bytes = static_cast<std::int64_t>(sizeof(T));
  constexpr std::int64_t row_bytes = 256;
  constexpr std::int64_t pitch = row_bytes + 64;
  constexpr std::int64_t columns = row_bytes / bytes;
  alignas(64) std::byte panel[width * pitch];
  for (std::int64_t i = 0; i < grid.extent_0; i += width) {
    if (i > grid.extent_0 - width) i = grid.extent_0 - width;
    for (std::int64_t j = 0; j < grid.extent_1; j += columns) {
      if (j > grid.extent_1 - columns) j = grid.extent_1 - columns;
      const std::byte* source = grid.source + i * grid.source_0 + j * bytes;
      for (int k = 0; k < width; ++k) {
        std::memcpy(panel + k * pitch, source + k * grid.source_0, row_bytes);
      }
      for (std::int64_t column = 0; column < columns; column += width) {
        std::byte* target = grid.target + i * bytes + (j + column) * grid.target_1;
        Square<T, width>::copy(panel + column * bytes, pitch, target, grid.target_1);
      }
    }
  }
}

/// Copies a grid whose axis 0 is contiguous in the target and axis 1 in the source by squares of
/// `width`, or of the largest smaller width that fits.
template <typename T, int width, bool shuffles_bytes>
TRANSHIP_INLINE void transpose_grid(const Grid& grid) {
  constexpr auto bytes = static_cast<std::int64_t>(sizeof(T));
  if (grid.extent_0 < width || grid.extent_1 < width) {
    constexpr bool halves = width > Square<T, width>::lane && width * bytes > 32;
    if constexpr (halves || (width > Square<T, width>::lane && bytes < 8)) {
      return transpose_grid<T, width / 2, shuffles_bytes>(grid);
    }
    return transpose_thin<T, shuffles_bytes>(grid);
  }
  if constexpr (width * bytes < 64) {
    constexpr std::int64_t crowded_pitch_bytes = 1024;
    if (grid.source_0 % crowded_pitch_bytes == 0 && grid.extent_1 * bytes >= 256) {
      return transpose_packed<T, width>(grid);
    }
  }
  transpose_squares<T, width>(grid);
}

}  // namespace
}  // namespace tranship::host
