// Lists of short elements of one length, each of them at a place of its own. The table has four
// bytes for a place, and none for a side whose places have equal distances.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/indexed_nest.hpp"
#include "gpu/kernels/nest_plan.hpp"

namespace tranship::gpu {

constexpr int place_loops_max = 4;
/// Most lists of one launch, whose parameters a kernel takes at once.
constexpr int place_lists_max = 8;
constexpr std::uint32_t place_units = 8;  ///< units that a thread moves

/// Where the places of a list lie on one side, in bytes from the side's address.
struct PlaceSide {
  std::int64_t offset = 0;
  std::int64_t table = -1;  ///< number of the first place in the table; -1: distances are equal
  std::int64_t distance = 0;
  std::int64_t strides[place_loops_max] = {};
};

/// Moves an element of `width` units to and from each place, for each index of the loops. An entry
/// of the table counts units from the side's offset.
struct PlaceList {
  PlaceSide source;
  PlaceSide target;
  Divisor width;  ///< units of an element
  Divisor item;   ///< units of all places
  Divisor loops[place_loops_max];
  std::int32_t rank = 0;
  std::int32_t unit_bytes = 1;
  std::uint32_t units = 0;        ///< of all places and all indices
  std::uint32_t first_block = 0;  ///< of the launch
};

/// Lists in the order in which they are launched, and their table.
struct PlaceLists {
  std::vector<PlaceList> lists;
  std::vector<std::uint32_t> places;
};

/// Some lists of one launch.
struct PlaceLaunch {
  PlaceList lists[place_lists_max];
  std::int32_t count = 0;
  std::uint32_t blocks = 0;
  const std::uint32_t* places = nullptr;
};

/// Appends a list for the nest. Returns false, with nothing appended, if its runs are long, its
/// entries few, or its loops too many: then other kernels move it as fast. Of the addresses, only
/// the alignment matters. often: There will be many launches, for which it pays to sort the places.
bool plan_places(const IndexedNest& nest, const std::byte* source, const std::byte* target,
                 bool often, PlaceLists& lists);

/// Returns the launch of as many lists, from number `first` on, as one takes.
PlaceLaunch launch_of(const PlaceLists& lists, std::size_t first, const std::byte* table);

}  // namespace tranship::gpu
