#include "plan/tile.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

namespace tranship {
namespace {

/// Share of its best rate from which an end counts as fast enough.
constexpr double saturated = 0.98;

/// Whether the fields of a point lie one behind the other, so that a point is one run.
bool fields_adjacent(const Mapping& mapping) {
  for (std::size_t f = 1; f < mapping.fields().size(); ++f) {
    const Placement& last = mapping.fields()[f - 1];
    if (mapping.fields()[f].offset != last.offset + last.field.bytes) return false;
  }
  return true;
}

/// The run of a tile and the dimension whose growth would lengthen it (-1: none).
struct Run {
  std::int64_t bytes = 0;
  int next = -1;
};

Run run_of(const Mapping& mapping, const Point& tile) {
  const Placement& placement = mapping.fields()[0];
  Run run{placement.field.bytes, -1};
  if (mapping.fields().size() > 1 && fields_adjacent(mapping)) run.bytes = mapping.point_bytes();
  std::array<int, dimensions_max> used{};                // levels already walked
  std::array<std::int64_t, dimensions_max> left = tile;  // tile indices not yet in the run
  for (int walked = 0; walked < dimensions_max * levels_max; ++walked) {
    int found = -1;
    for (std::size_t k = 0; k < static_cast<std::size_t>(mapping.rank()); ++k) {
      const Levels& levels = placement.dimension[k];
      if (used[k] >= levels.count || mapping.space()[k].extent <= 1) continue;
      if (levels.level[static_cast<std::size_t>(used[k])].stride == run.bytes) {
        found = static_cast<int>(k);
        break;
      }
    }
    if (found < 0) return run;
    const auto k = static_cast<std::size_t>(found);
    const Levels& levels = placement.dimension[k];
    const bool last = used[k] + 1 == levels.count;
    const std::int64_t radix = levels.level[static_cast<std::size_t>(used[k])].radix;
    const std::int64_t taken = last ? left[k] : std::min(left[k], radix);
    run.bytes *= taken;
    if (tile[k] < mapping.space()[k].extent && (taken < radix || last)) {
      run.next = found;
      return run;
    }
    left[k] = std::max<std::int64_t>((left[k] + radix - 1) / radix, 1);
    ++used[k];
  }
  return run;
}

std::int64_t points_of(const Point& tile, int rank) {
  std::int64_t product = 1;
  for (std::size_t k = 0; k < static_cast<std::size_t>(rank); ++k) product *= tile[k];
  return product;
}

/// The fastest dimension, in the mapping's order, that can still grow.
int next_in_order(const Mapping& mapping, const Point& tile, const Point& extents) {
  for (const Term& term : mapping.layout().terms()) {
    for (std::size_t k = 0; k < static_cast<std::size_t>(mapping.rank()); ++k) {
      if (mapping.space()[k].name == term.dimension && tile[k] < extents[k]) {
        return static_cast<int>(k);
      }
    }
  }
  return -1;
}

/// The rate at an end, or infinity if a longer run would not make it faster.
double rate_to_mend(const TileEnd& end, std::int64_t bytes, std::int64_t run_bytes) {
  if (end.throughput == nullptr) return INFINITY;
  const double rate = end.throughput->at(bytes, run_bytes);
  return rate < saturated * end.throughput->peak() ? rate : INFINITY;
}

/// The dimension to grow: where the slower end gains a longer run; if neither does, where the run
/// is shorter.
int dimension_to_grow(const TileEnd& source, const TileEnd& target, const Point& tile,
                      const Point& extents, std::int64_t bytes_max) {
  const Run at_source = run_of(*source.mapping, tile);
  const Run at_target = run_of(*target.mapping, tile);
  const auto usable = [&](const Run& run) {
    return run.next >= 0 &&
           tile[static_cast<std::size_t>(run.next)] < extents[static_cast<std::size_t>(run.next)];
  };
  const bool source_grows = usable(at_source);
  const bool target_grows = usable(at_target);
  if (source_grows && target_grows) {
    const double a = rate_to_mend(source, bytes_max, at_source.bytes);
    const double b = rate_to_mend(target, bytes_max, at_target.bytes);
    if (a != b) return a < b ? at_source.next : at_target.next;
    return at_source.bytes < at_target.bytes ? at_source.next : at_target.next;
  }
  if (target_grows) return at_target.next;
  if (source_grows) return at_source.next;
  return next_in_order(*target.mapping, tile, extents);
}

/// Product of the block sizes of a dimension on both sides, where one tile holds it.
std::int64_t block_of(const Mapping& mapping, std::size_t k) {
  const Levels& levels = mapping.fields()[0].dimension[k];
  std::int64_t block = 1;
  for (std::size_t j = 0; j + 1 < static_cast<std::size_t>(levels.count); ++j) {
    block *= levels.level[j].radix;
  }
  return block;
}

/// Spreads the indices evenly over the tiles, in whole blocks where there are some and in whole
/// cache lines where the tile is long.
std::int64_t even(std::int64_t extent, std::int64_t tile, std::int64_t block) {
  if (tile >= extent) return extent;
  const std::int64_t tiles = (extent + tile - 1) / tile;
  std::int64_t width = (extent + tiles - 1) / tiles;
  constexpr std::int64_t line = 64;
  for (const std::int64_t unit : {std::lcm(block, line), block}) {
    if (width <= unit) continue;
    width =
        std::max((tile < width + unit ? tile : width + unit - 1) / unit, std::int64_t{1}) * unit;
    break;
  }
  return std::min(width, extent);
}

}  // namespace

std::int64_t contiguous_run(const Mapping& mapping, const Point& tile) {
  return run_of(mapping, tile).bytes;
}

Point choose_tile(const TileEnd& source, const TileEnd& target, const Point& extents,
                  std::int64_t bytes_max) {
  const int rank = target.mapping->rank();
  const std::int64_t points_max =
      std::max<std::int64_t>(bytes_max / target.mapping->point_bytes(), 1);
  Point tile{};
  for (std::size_t k = 0; k < static_cast<std::size_t>(rank); ++k) tile[k] = 1;
  if (points_of(extents, rank) == 0) return tile;
  while (true) {
    const int grown = dimension_to_grow(source, target, tile, extents, bytes_max);
    if (grown < 0) break;
    const auto k = static_cast<std::size_t>(grown);
    const std::int64_t others = points_of(tile, rank) / tile[k];
    const std::int64_t room = points_max / others;
    if (room <= tile[k]) break;
    tile[k] = std::min({tile[k] * 2, room, extents[k]});
  }
  for (std::size_t k = 0; k < static_cast<std::size_t>(rank); ++k) {
    const std::int64_t block = std::max(block_of(*source.mapping, k), block_of(*target.mapping, k));
    tile[k] = even(extents[k], tile[k], block);
  }
  return tile;
}

std::int64_t tile_count(const Point& extents, const Point& tile, int rank) {
  std::int64_t count = 1;
  for (std::size_t k = 0; k < static_cast<std::size_t>(rank); ++k) {
    count *= (extents[k] + tile[k] - 1) / tile[k];
  }
  return count;
}

TileBox tile_at(const Point& extents, const Point& tile, int rank, std::int64_t number) {
  TileBox box;
  for (std::size_t j = static_cast<std::size_t>(rank); j > 0; --j) {
    const std::size_t k = j - 1;
    const std::int64_t tiles = (extents[k] + tile[k] - 1) / tile[k];
    box.lower[k] = number % tiles * tile[k];
    box.extents[k] = std::min(tile[k], extents[k] - box.lower[k]);
    number /= tiles;
  }
  return box;
}

}  // namespace tranship
