#include "gpu/kernels/place_list.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <span>

#include "gpu/kernels/nest_work.hpp"

namespace tranship::gpu {
namespace {

/// Fewest entries of a list: below, a launch costs more than its bytes, whatever the kernel.
constexpr std::size_t entries_least = 64;
/// Longest run, in bytes, that the threads of a block share better than a warp has it alone.
constexpr std::int64_t run_bytes_most = 128;
/// Longest run, in bytes, that is worth a table of more bytes than the elements.
constexpr std::int64_t short_run_bytes = 16;
/// Most places of a list: a table of half a GiB for both sides.
constexpr std::int64_t places_most = std::int64_t{1} << 26;
/// Smallest mean number of moves that do not touch for which an entry is a loop of its own.
constexpr std::int64_t loop_moves_least = 16;

/// The loops of a nest, divided by whether they go within an entry or over all entries.
struct Grid {
  std::vector<Loop> inner;
  std::vector<Loop> outer;
  std::int64_t inner_count = 1;
  std::int64_t outer_count = 1;
};

std::int64_t offset_of(const IndexedEntry& entry, bool source) {
  return source ? entry.source_offset : entry.target_offset;
}

/// Whether the first entries of a side have equal distances.
bool equally_far(std::span<const IndexedEntry> entries, bool source) {
  constexpr std::size_t looked_at = 8;
  const std::int64_t distance = offset_of(entries[1], source) - offset_of(entries[0], source);
  for (std::size_t k = 2; k < std::min(entries.size(), looked_at); ++k) {
    const std::int64_t next = offset_of(entries[k], source) - offset_of(entries[k - 1], source);
    if (next != distance) return false;
  }
  return true;
}

/// The order of the places is that of the side whose accesses can follow each other.
Grid divide_loops(const IndexedNest& one) {
  Grid grid;
  const bool by_source = !equally_far(one.entries, false) && equally_far(one.entries, true);
  const std::int64_t distance =
      std::abs(offset_of(one.entries[1], by_source) - offset_of(one.entries[0], by_source));
  for (int k = 0; k < one.nest.rank; ++k) {
    const Loop& loop = one.nest.loops[static_cast<std::size_t>(k)];
    if (loop.extent == 1) continue;
    const bool inner = std::abs(by_source ? loop.source_stride : loop.target_stride) < distance;
    (inner ? grid.inner : grid.outer).push_back(loop);
    (inner ? grid.inner_count : grid.outer_count) *= loop.extent;
  }
  return grid;
}

/// Calls `visit(source, target)` with the offsets of each place, from the nest's own.
template <typename Visit>
void visit_loops(std::span<const Loop> loops, std::int64_t source, std::int64_t target,
                 const Visit& visit) {
  if (loops.empty()) return visit(source, target);
  const Loop& outer = loops.back();
  for (std::int64_t k = 0; k < outer.extent; ++k) {
    visit_loops(loops.first(loops.size() - 1), source + k * outer.source_stride,
                target + k * outer.target_stride, visit);
  }
}

template <typename Visit>
void visit_places(const IndexedNest& one, const Grid& grid, const Visit& visit) {
  for (const IndexedEntry& entry : one.entries) {
    std::int64_t source = entry.source_offset;
    std::int64_t target = entry.target_offset;
    for (std::int64_t k = 0; k < entry.count; ++k) {
      if (grid.inner.empty()) {
        visit(source, target);
      } else {
        visit_loops(grid.inner, source, target, visit);
      }
      source += one.source_step;
      target += one.target_step;
    }
  }
}

/// What one side's places have in common.
struct Reach {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::int64_t most = std::numeric_limits<std::int64_t>::min();
  std::int64_t bits = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t distance = 0;
  bool equal = true;  ///< all distances

  void add(std::int64_t offset, std::int64_t number) {
    if (number == 0) first = offset;
    if (number == 1) distance = offset - first;
    if (number > 1 && offset - last != distance) equal = false;
    least = std::min(least, offset);
    most = std::max(most, offset);
    bits |= offset;
    last = offset;
  }

  PlaceSide side(std::int64_t begin) const {
    PlaceSide side;
    side.offset = begin + (equal ? first : least);
    side.distance = equal ? distance : 0;
    return side;
  }
};

/// Whether places are faster than a warp for each run, or a block for each entry.
bool suits(const IndexedNest& one, std::int64_t moves, const Grid& grid, int tables) {
  const std::int64_t bytes = one.nest.element_bytes;
  const auto entries = static_cast<std::int64_t>(one.entries.size());
  if (!one.moves_touch() && moves >= loop_moves_least * entries) return false;
  const std::int64_t run = one.moves_touch() ? bytes * moves / entries : bytes;
  const std::int64_t places = moves * grid.inner_count;
  const auto table_bytes = static_cast<std::int64_t>(sizeof(std::uint32_t)) * tables * places;
  if (run > run_bytes_most || places > places_most) return false;
  return run <= short_run_bytes || table_bytes <= places * grid.outer_count * bytes;
}

}  // namespace

bool plan_places(const IndexedNest& nest, const std::byte* source, const std::byte* target,
                 PlaceLists& lists) {
  if (nest.entries.size() < entries_least || nest.nest.element_bytes > run_bytes_most) return false;
  const Grid grid = divide_loops(nest);
  const std::int64_t moves = nest.moves();
  if (grid.outer.size() > place_loops_max || !suits(nest, moves, grid, 1)) return false;
  Reach from, to;
  std::int64_t number = 0;
  visit_places(nest, grid, [&](std::int64_t source_offset, std::int64_t target_offset) {
    from.add(source_offset, number);
    to.add(target_offset, number);
    ++number;
  });
  if (!suits(nest, moves, grid, (from.equal ? 0 : 1) + (to.equal ? 0 : 1))) return false;

  const std::int64_t bytes = nest.nest.element_bytes;
  std::int64_t bits = from.bits | to.bits | bytes | address_bits(source, nest.nest.source_offset) |
                      address_bits(target, nest.nest.target_offset);
  for (const Loop& loop : grid.outer) bits |= loop.source_stride | loop.target_stride;
  const std::int64_t unit = common_bytes(bits);
  constexpr std::int64_t units_most = std::numeric_limits<std::int32_t>::max();
  constexpr std::int64_t entry_most = std::numeric_limits<std::uint32_t>::max();
  const std::int64_t item = number * (bytes / unit);
  const bool fits = item * grid.outer_count <= units_most &&
                    (from.equal || (from.most - from.least) / unit <= entry_most) &&
                    (to.equal || (to.most - to.least) / unit <= entry_most);
  if (!fits || number == 0) return false;

  PlaceList list;
  list.source = from.side(nest.nest.source_offset);
  list.target = to.side(nest.nest.target_offset);
  list.width = make_divisor(bytes / unit);
  list.item = make_divisor(item);
  list.rank = static_cast<std::int32_t>(grid.outer.size());
  for (std::size_t k = 0; k < grid.outer.size(); ++k) {
    list.loops[k] = make_divisor(grid.outer[k].extent);
    list.source.strides[k] = grid.outer[k].source_stride;
    list.target.strides[k] = grid.outer[k].target_stride;
  }
  list.unit_bytes = static_cast<std::int32_t>(unit);
  list.units = static_cast<std::uint32_t>(item * grid.outer_count);
  const auto write = [&](bool of_source, const Reach& reach, PlaceSide& side) {
    if (reach.equal) return;
    side.table = static_cast<std::int64_t>(lists.places.size());
    lists.places.resize(lists.places.size() + static_cast<std::size_t>(number));
    std::uint32_t* at = lists.places.data() + side.table;
    visit_places(nest, grid, [&](std::int64_t source_offset, std::int64_t target_offset) {
      const std::int64_t offset = (of_source ? source_offset : target_offset) - reach.least;
      *at++ = static_cast<std::uint32_t>(offset / unit);
    });
  };
  write(true, from, list.source);
  write(false, to, list.target);
  lists.lists.push_back(list);
  return true;
}

PlaceLaunch launch_of(const PlaceLists& lists, std::size_t first, const std::byte* table) {
  PlaceLaunch launch;
  launch.places = reinterpret_cast<const std::uint32_t*>(table);
  for (std::size_t k = first; k < lists.lists.size() && launch.count < place_lists_max; ++k) {
    PlaceList& list = launch.lists[launch.count++];
    list = lists.lists[k];
    list.first_block = launch.blocks;
    constexpr std::int64_t block_units = std::int64_t{place_units} * kernel_threads;
    launch.blocks += static_cast<std::uint32_t>(ceil_divide(list.units, block_units));
  }
  return launch;
}

}  // namespace tranship::gpu
