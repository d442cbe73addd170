#include "gpu/kernels/place_list.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <span>
#include <utility>

#include "gpu/kernels/normal_nest.hpp"

namespace tranship::gpu {
namespace {

/// Fewest entries of a list: below, a launch costs more than its bytes, whatever the kernel.
constexpr std::size_t entries_least = 64;
/// Longest run, in bytes, that the threads of a block share better than a warp has it alone.
constexpr std::int64_t run_bytes_most = 128;
/// Most bytes of a table for each entry that are worth it if the elements have fewer: a piece would
/// take 24, and a warp.
constexpr std::int64_t entry_table_most = 32;
/// Most places of a list: a table of half a GiB for both sides.
constexpr std::int64_t places_most = std::int64_t{1} << 26;
/// Places of so many bytes are written in the order of memory, since the parts of one sector are
/// then written together; what is read meanwhile lies in the GPU's cache.
constexpr std::int64_t sorted_bytes_most = std::int64_t{8} << 20;
/// Most places that are sorted, which takes some 0.1 s.
constexpr std::int64_t sorted_places_most = std::int64_t{1} << 20;
/// Smallest number of turns of the loops that pays for sorting the places for one launch: 50 ns for
/// each place, which saves the GPU some 20 ps in each turn.
constexpr std::int64_t sorted_turns_least = 4096;
/// Smallest mean number of places that do not touch for which an entry is a nest of its own.
constexpr std::int64_t nest_places_least = 16;

/// How the moves of a list become places. Loops go within an entry or over all entries.
struct Grid {
  std::int64_t element_bytes = 0;
  bool whole_entries = false;  ///< All moves of an entry are one element.
  int moves_log2 = 0;          ///< Otherwise 2^moves_log2 moves of an entry are one element.
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

/// Returns whether an entry's moves continue each other on both sides, so that they are one longer
/// element.
bool moves_join(const IndexedNest& one) {
  return one.source_step == one.nest.element_bytes && one.target_step == one.nest.element_bytes;
}

/// Returns whether the first entries are too long for places: a quick check that finds most lists
/// of long runs.
bool begins_with_long_runs(const IndexedNest& one) {
  constexpr std::size_t looked_at = 8;
  if (one.nest.element_bytes > run_bytes_most) return true;
  return moves_join(one) &&
         std::all_of(one.entries.begin(), one.entries.begin() + looked_at,
                     [&](const IndexedEntry& entry) {
                       return entry.count * one.nest.element_bytes > run_bytes_most;
                     });
}

/// Joins moves to longer elements: those of whole entries where all are equally long.
void join_moves(const IndexedNest& one, Grid& grid) {
  const std::int64_t first = one.entries[0].count;
  std::int64_t any = 0, differ = 0;
  for (const IndexedEntry& entry : one.entries) {
    any |= entry.count;
    differ |= entry.count ^ first;
  }
  grid.whole_entries = differ == 0;
  if (!grid.whole_entries) grid.moves_log2 = std::countr_zero(static_cast<std::uint64_t>(any));
  grid.element_bytes *= grid.whole_entries ? first : std::int64_t{1} << grid.moves_log2;
}

/// The order of the places is that of the side whose accesses can follow each other.
Grid divide_loops(const IndexedNest& one) {
  Grid grid;
  grid.element_bytes = one.nest.element_bytes;
  if (moves_join(one)) join_moves(one, grid);
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
  if (grid.whole_entries && grid.inner.empty()) {
    for (const IndexedEntry& entry : one.entries) visit(entry.source_offset, entry.target_offset);
    return;
  }
  const std::int64_t source_step = one.source_step << grid.moves_log2;
  const std::int64_t target_step = one.target_step << grid.moves_log2;
  for (const IndexedEntry& entry : one.entries) {
    std::int64_t source = entry.source_offset;
    std::int64_t target = entry.target_offset;
    for (std::int64_t k = entry.count >> grid.moves_log2; k > 0; --k) {
      if (grid.inner.empty()) {
        visit(source, target);
      } else {
        visit_loops(grid.inner, source, target, visit);
      }
      source += source_step;
      target += target_step;
    }
  }
}

/// What one side's places have in common.
class Reach {
 public:
  /// Of a side with these first two places.
  Reach(std::int64_t first, std::int64_t second)
      : first_(first), distance_(second - first), last_(first - distance_) {}

  void add(std::int64_t offset) {
    least_ = std::min(least_, offset);
    most_ = std::max(most_, offset);
    bits_ |= offset;
    differ_ |= (offset - last_) ^ distance_;
    last_ = offset;
  }

  std::int64_t least() const { return least_; }
  std::int64_t extent() const { return most_ - least_; }
  std::int64_t bits() const { return bits_; }  ///< all offsets, or-ed
  bool equally_far() const { return differ_ == 0; }
  std::int64_t first() const { return first_; }
  std::int64_t distance() const { return distance_; }  ///< of the first two places

 private:
  std::int64_t first_;
  std::int64_t distance_;
  std::int64_t last_;
  std::int64_t least_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t most_ = std::numeric_limits<std::int64_t>::min();
  std::int64_t bits_ = 0;
  std::int64_t differ_ = 0;
};

struct Reaches {
  Reach source;
  Reach target;

  int tables() const { return (source.equally_far() ? 0 : 1) + (target.equally_far() ? 0 : 1); }
};

Reaches reaches_of(const IndexedNest& one, const Grid& grid) {
  IndexedNest begin = one;
  begin.entries = one.entries.first(2);
  std::int64_t first[2] = {}, second[2] = {};
  int number = 0;
  visit_places(begin, grid, [&](std::int64_t source, std::int64_t target) {
    if (number > 1) return;
    (number == 0 ? first : second)[0] = source;
    (number == 0 ? first : second)[1] = target;
    ++number;
  });
  Reaches reaches{{first[0], second[0]}, {first[1], second[1]}};
  Reach from = reaches.source, to = reaches.target;  // in registers
  visit_places(one, grid, [&](std::int64_t source, std::int64_t target) {
    from.add(source);
    to.add(target);
  });
  return {from, to};
}

/// Writes places to the tables of the sides that have one, in units.
class TableWriter {
 public:
  TableWriter(const Reaches& reaches, const PlaceList& list, std::vector<std::uint32_t>& table)
      : shift_(std::countr_zero(static_cast<std::uint32_t>(list.unit_bytes))),
        source_least_(reaches.source.least()),
        target_least_(reaches.target.least()),
        source_(list.source.table < 0 ? nullptr : table.data() + list.source.table),
        target_(list.target.table < 0 ? nullptr : table.data() + list.target.table) {}

  void add(std::int64_t source, std::int64_t target) {
    if (source_ != nullptr) *source_++ = units(source - source_least_);
    if (target_ != nullptr) *target_++ = units(target - target_least_);
  }

 private:
  std::uint32_t units(std::int64_t bytes) const {
    return static_cast<std::uint32_t>(bytes >> shift_);
  }

  int shift_;
  std::int64_t source_least_;
  std::int64_t target_least_;
  std::uint32_t* source_;
  std::uint32_t* target_;
};

/// Makes the tables of a list: of both sides if the places are sorted, of those without equal
/// distances otherwise.
void make_tables(const IndexedNest& one, const Grid& grid, const Reaches& reaches, bool sorted,
                 std::int64_t places, PlaceList& list, std::vector<std::uint32_t>& table) {
  const auto make_side = [&](PlaceSide& side, const Reach& reach, std::int64_t begin) {
    const bool has_table = sorted || !reach.equally_far();
    side.offset = begin + (has_table ? reach.least() : reach.first());
    if (!has_table) {
      side.distance = reach.distance();
      return;
    }
    side.table = static_cast<std::int64_t>(table.size());
    table.resize(table.size() + static_cast<std::size_t>(places));
  };
  make_side(list.source, reaches.source, one.nest.source_offset);
  make_side(list.target, reaches.target, one.nest.target_offset);
  TableWriter writer(reaches, list, table);
  if (!sorted) {
    visit_places(one, grid, [&](std::int64_t from, std::int64_t to) { writer.add(from, to); });
    return;
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> by_target;
  by_target.reserve(static_cast<std::size_t>(places));
  visit_places(one, grid,
               [&](std::int64_t from, std::int64_t to) { by_target.emplace_back(to, from); });
  std::sort(by_target.begin(), by_target.end());
  for (const auto& [to, from] : by_target) writer.add(from, to);
}

/// Whether places are faster than a warp for each run, or a block for each entry.
bool suits(const IndexedNest& one, std::int64_t places, const Grid& grid, int tables) {
  const auto entries = static_cast<std::int64_t>(one.entries.size());
  const bool touch = moves_join(one) && grid.inner.empty();
  if (!touch && places / entries >= nest_places_least) return false;
  const std::int64_t run = touch ? grid.element_bytes * places / entries : grid.element_bytes;
  if (places > places_most || run > run_bytes_most) return false;
  const auto table_bytes = static_cast<std::int64_t>(sizeof(std::uint32_t)) * tables * places;
  const std::int64_t moved = places * grid.outer_count * grid.element_bytes;
  return table_bytes <= std::max(moved, entry_table_most * entries);
}

}  // namespace

bool plan_places(const IndexedNest& nest, const std::byte* source, const std::byte* target,
                 bool often, PlaceLists& lists) {
  if (nest.entries.size() < entries_least || begins_with_long_runs(nest)) return false;
  const Grid grid = divide_loops(nest);
  const std::int64_t bytes = grid.element_bytes;
  if (bytes * grid.inner_count * grid.outer_count == 0) return false;
  if (bytes > run_bytes_most || grid.outer.size() > place_loops_max) return false;
  const std::int64_t moves = grid.whole_entries ? static_cast<std::int64_t>(nest.entries.size())
                                                : nest.moves() >> grid.moves_log2;
  const std::int64_t places = moves * grid.inner_count;
  constexpr std::int64_t units_most = std::numeric_limits<std::int32_t>::max();
  if (!suits(nest, places, grid, 1) || places > units_most / grid.outer_count) return false;
  const Reaches reaches = reaches_of(nest, grid);
  if (!suits(nest, places, grid, reaches.tables())) return false;

  std::int64_t bits = reaches.source.bits() | reaches.target.bits() | bytes |
                      address_bits(source, nest.nest.source_offset) |
                      address_bits(target, nest.nest.target_offset);
  for (const Loop& loop : grid.outer) bits |= loop.source_stride | loop.target_stride;
  const std::int64_t unit = common_bytes(bits);
  constexpr std::int64_t entry_most = std::numeric_limits<std::uint32_t>::max();
  const std::int64_t item = places * (bytes / unit);
  const auto near = [&](const Reach& side) { return side.extent() / unit <= entry_most; };
  const auto fits = [&](const Reach& side) { return side.equally_far() || near(side); };
  if (item > units_most / grid.outer_count || !fits(reaches.source) || !fits(reaches.target)) {
    return false;
  }

  PlaceList list;
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
  const bool pays = often || grid.outer_count >= sorted_turns_least;
  const bool sorted = pays && !reaches.target.equally_far() && near(reaches.source) &&
                      places <= sorted_places_most && places * bytes <= sorted_bytes_most;
  make_tables(nest, grid, reaches, sorted, places, list, lists.places);
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
