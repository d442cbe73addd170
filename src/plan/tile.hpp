// Tiles: the box of the index space that travels as one unit. Its extents are the blocking factors
// of Isometry 4.2.
#pragma once

#include <cstdint>

#include "machine/throughput.hpp"
#include "plan/order.hpp"

namespace tranship {

/// What memory is read and written in, whatever a tile takes of it: a pair of cache lines, or one
/// of a GPU. Tiles of shorter runs would move the same lines several times.
constexpr std::int64_t line_pair_bytes = 128;

/// Long tiles are cut after so many indices, or multiples: their runs then begin where lines do.
constexpr std::int64_t tile_unit = 64;

/// An extent of a tile, no larger than `extent`, in whole units and blocks if it is long enough.
std::int64_t in_units(std::int64_t extent, std::int64_t block, std::int64_t whole);

/// One end of a path, for choosing a tile.
struct TileEnd {
  const Order* order = nullptr;
  /// Of the channel whose rate depends on the runs at this end; null: none does.
  const Throughput* throughput = nullptr;
};

/// A tile, and the rate that no tile of that size surpasses at the slower of its ends.
struct TileChoice {
  Point tile{};
  double rate_most = 0;  ///< infinite if no end's rate depends on its runs
};

/// A tile of at most `bytes_max` (at least one point) that lets the slower end be as fast as it
/// can: binary search on the rate, where each rate asks for runs at both ends and so for a least
/// box. What room is left goes to longer runs at both ends alike, and extents are spread evenly.
TileChoice choose_tile(const TileEnd& source, const TileEnd& target, const Point& extents,
                       std::int64_t bytes_max);

std::int64_t tile_count(const Point& extents, const Point& tile, int rank);

/// The tile of number `number`: its first index and its extents, cut at the edges.
struct TileBox {
  Point lower{};
  Point extents{};
};
TileBox tile_at(const Point& extents, const Point& tile, int rank, std::int64_t number);

}  // namespace tranship
