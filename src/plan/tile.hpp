// Tiles: the box of the index space that travels as one unit.
#pragma once

#include <cstdint>

#include "data/mapping.hpp"
#include "machine/throughput.hpp"

namespace tranship {

/// Longest run of contiguous bytes in a tile of these extents.
std::int64_t contiguous_run(const Mapping& mapping, const Point& tile);

/// One end of a path, for choosing a tile.
struct TileEnd {
  const Mapping* mapping = nullptr;
  /// Of the channel whose rate depends on the runs at this end; null: none does.
  const Throughput* throughput = nullptr;
};

/// A tile of at most `bytes_max` (at least one point): it grows where the slower end gains most,
/// so that both ends get runs as long as they need.
Point choose_tile(const TileEnd& source, const TileEnd& target, const Point& extents,
                  std::int64_t bytes_max);

std::int64_t tile_count(const Point& extents, const Point& tile, int rank);

/// The tile of number `number`: its first index and its extents, cut at the edges.
struct TileBox {
  Point lower{};
  Point extents{};
};
TileBox tile_at(const Point& extents, const Point& tile, int rank, std::int64_t number);

}  // namespace tranship
