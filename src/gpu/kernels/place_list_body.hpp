// Kernel body for lists of places: what one thread of one block does.
#pragma once

#include "gpu/kernels/kernel_body.hpp"
#include "gpu/kernels/place_list.hpp"

namespace tranship::gpu {

TRANSHIP_DEVICE std::int64_t place_offset(const PlaceSide& side, const std::uint32_t* places,
                                          std::uint32_t place, std::int64_t unit_bytes) {
  if (side.table < 0) return place * side.distance;
  return static_cast<std::int64_t>(places[side.table + place]) * unit_bytes;
}

struct PlacedUnit {
  std::int64_t source = 0;
  std::int64_t target = 0;
};

/// Returns where a unit of a list lies, in bytes from the sides' offsets.
template <int unit_bytes>
TRANSHIP_DEVICE PlacedUnit locate_unit(const PlaceList& list, const std::uint32_t* places,
                                       std::uint32_t number) {
  std::uint32_t rest = divide(number, list.item);
  const std::uint32_t in_item = number - rest * list.item.divisor;
  const std::uint32_t place = divide(in_item, list.width);
  const std::int64_t inside = (in_item - place * list.width.divisor) * unit_bytes;
  PlacedUnit unit{inside + place_offset(list.source, places, place, unit_bytes),
                  inside + place_offset(list.target, places, place, unit_bytes)};
  for (std::int32_t k = 0; k < list.rank; ++k) {
    const std::uint32_t next = divide(rest, list.loops[k]);
    const std::uint32_t index = rest - next * list.loops[k].divisor;
    unit.source += index * list.source.strides[k];
    unit.target += index * list.target.strides[k];
    rest = next;
  }
  return unit;
}

template <int unit_bytes>
struct HeldUnit {
  Words<unit_bytes> words;
  std::byte* target = nullptr;
};

/// Moves a thread's share of a list: one unit of each of some rows as wide as the block.
template <int unit_bytes>
TRANSHIP_DEVICE void move_places(const PlaceList& list, const std::uint32_t* places,
                                 std::uint32_t block, std::uint32_t thread, const std::byte* source,
                                 std::byte* target) {
  source += list.source.offset;
  target += list.target.offset;
  const std::uint32_t begin = block * (place_units * kernel_threads) + thread;
  HeldUnit<unit_bytes> held[place_units];
  TRANSHIP_UNROLL
  for (std::uint32_t r = 0; r < place_units; ++r) {
    // Behind the end, threads read the last unit again.
    const std::uint32_t number = begin + r * kernel_threads;
    const std::uint32_t valid = number < list.units ? number : list.units - 1;
    const PlacedUnit unit = locate_unit<unit_bytes>(list, places, valid);
    held[r] = {read<unit_bytes>(source + unit.source), target + unit.target};
  }
  TRANSHIP_UNROLL
  for (std::uint32_t r = 0; r < place_units; ++r) {
    if (begin + r * kernel_threads < list.units) write(held[r].target, held[r].words);
  }
}

TRANSHIP_DEVICE void move_places(const PlaceLaunch& launch, std::uint32_t block,
                                 std::uint32_t thread, const std::byte* source, std::byte* target) {
  int number = 0;
  while (number + 1 < launch.count && launch.lists[number + 1].first_block <= block) ++number;
  const PlaceList& list = launch.lists[number];
  block -= list.first_block;
  const std::uint32_t* places = launch.places;
  switch (list.unit_bytes) {
    case 1: return move_places<1>(list, places, block, thread, source, target);
    case 2: return move_places<2>(list, places, block, thread, source, target);
    case 4: return move_places<4>(list, places, block, thread, source, target);
    case 8: return move_places<8>(list, places, block, thread, source, target);
    default: return move_places<16>(list, places, block, thread, source, target);
  }
}

}  // namespace tranship::gpu
