// Tiles: the boxes of the index space that move through a path as one unit. Their extents are the
// blocking factors of Isometry 4.2.
#pragma once

#include <cstdint>

#include "machine/throughput.hpp"
#include "plan/order.hpp"

namespace tranship {

/// Unit in which memory is read and written: a pair of cache lines, or one line of a GPU. Tiles
/// with shorter runs would move the same lines several times.
constexpr std::int64_t line_pair_bytes = 128;

/// Extents of long tiles are multiples of this, so that their runs begin at cache lines.
constexpr std::int64_t tile_unit = 64;

/// Returns `extent` rounded down to whole units and blocks if it is long enough.
std::int64_t in_units(std::int64_t extent, std::int64_t block, std::int64_t whole);

/// One end of a path, for choosing a tile.
struct TileEnd {
  const Order* order = nullptr;
  /// Throughput of the channel whose rate depends on the runs at this end; null: none does.
  const Throughput* throughput = nullptr;
};

/// A tile, and an upper bound for the rate of any tile of that size at the slower end.
struct TileChoice {
  Point tile{};
  double rate_most = 0;  ///< infinite if no end's rate depends on its runs
};

/// Returns the tile of at most `bytes_max` bytes (at least one point) with which the slower end is
/// as fast as possible. It is found by a binary search on the rate: each rate requires runs at both
/// ends, and so a smallest box. Remaining room goes to longer runs at both ends, and extents are
/// rounded so that tiles divide the array evenly.
TileChoice choose_tile(const TileEnd& source, const TileEnd& target, const Point& extents,
                       std::int64_t bytes_max);

/// Returns the tile of at most `bytes_max` bytes (at least one point) that spans as much in one
/// piece at either end: of all tiles of its size it shares the fewest cache lines with others.
Point choose_even_tile(const Order& source, const Order& target, const Point& extents,
                       std::int64_t bytes_max);

/// Returns the number of tiles in a box of `extents`.
std::int64_t tile_count(const Point& extents, const Point& tile, int rank);

/// One tile: its first indices and its extents, which are smaller at the edges.
struct TileBox {
  Point lower{};
  Point extents{};
};
/// Returns the tile of number `number`.
TileBox tile_at(const Point& extents, const Point& tile, int rank, std::int64_t number);

}  // namespace tranship
