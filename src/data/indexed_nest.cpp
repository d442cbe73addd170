#include "data/indexed_nest.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace tranship {

std::int64_t IndexedNest::moves() const {
  std::int64_t count = 0;
  for (const IndexedEntry& entry : entries) count += entry.count;
  return count;
}

std::int64_t IndexedNest::bytes() const { return moves() * nest.bytes(); }

bool moves_runs(std::span<const IndexedNest> indexed) {
  return std::all_of(indexed.begin(), indexed.end(),
                     [](const IndexedNest& one) { return one.nest.rank == 0; });
}

LoopNest nest_of(const IndexedNest& indexed, const IndexedEntry& entry) {
  LoopNest nest = indexed.nest;
  nest.source_offset += entry.source_offset;
  nest.target_offset += entry.target_offset;
  if (entry.count == 1) return nest;
  if (indexed.moves_touch()) {
    nest.element_bytes *= entry.count;
    return nest;
  }
  if (nest.rank > 0) {
    Loop& outer = nest.loops[static_cast<std::size_t>(nest.rank - 1)];
    if (indexed.source_step == outer.extent * outer.source_stride &&
        indexed.target_step == outer.extent * outer.target_stride) {
      outer.extent *= entry.count;
      return nest;
    }
  }
  CHECK(nest.rank < LoopNest::loops_max, "an indexed nest leaves room for the loop of its moves");
  nest.loops[static_cast<std::size_t>(nest.rank++)] = {entry.count, indexed.source_step,
                                                       indexed.target_step};
  return nest;
}

void expand(std::span<const IndexedNest> indexed, std::vector<LoopNest>& nests) {
  for (const IndexedNest& one : indexed) {
    for (const IndexedEntry& entry : one.entries) {
      if (one.one_allocation) {
        nests.push_back(nest_of(one, entry));
        continue;
      }
      IndexedEntry move = entry;
      move.count = 1;
      for (std::int64_t k = 0; k < entry.count; ++k) {
        nests.push_back(nest_of(one, move));
        move.source_offset += one.source_step;
        move.target_offset += one.target_step;
      }
    }
  }
}

void make_dense(std::vector<IndexedNest>& nests, ListSide side,
                std::vector<IndexedEntry>& entries) {
  std::size_t count = 0;
  for (const IndexedNest& one : nests) count += one.entries.size();
  entries.clear();
  entries.reserve(count);  // the nests refer to them
  const bool source = side == ListSide::source;
  std::int64_t packed = 0;
  for (IndexedNest& one : nests) {
    std::int64_t run = one.nest.element_bytes;
    for (std::size_t k = 0; k < static_cast<std::size_t>(one.nest.rank); ++k) {
      Loop& loop = one.nest.loops[k];
      (source ? loop.source_stride : loop.target_stride) = run;
      run *= loop.extent;
    }
    (source ? one.nest.source_offset : one.nest.target_offset) = 0;
    (source ? one.source_step : one.target_step) = run;
    const std::size_t first = entries.size();
    for (IndexedEntry entry : one.entries) {
      (source ? entry.source_offset : entry.target_offset) = packed;
      packed += entry.count * run;
      entries.push_back(entry);
    }
    one.entries = std::span(entries).subspan(first);
  }
}

void IndexedCopy::clear() {
  constexpr std::size_t entries_kept_max = std::size_t{256} << 10;
  if (entries_.capacity() > entries_kept_max) entries_ = {};
  nests_.clear();
  entries_.clear();
  groups_.clear();
  tiles_.clear();
  bytes_ = 0;
}

void IndexedCopy::begin_group(std::span<const LoopNest> nests, std::int64_t source_step,
                              std::int64_t target_step, bool one_allocation) {
  Group group;
  group.first_nest = nests_.size();
  group.nest_count = nests.size();
  group.first_entry = entries_.size();
  group.source_step = source_step;
  group.target_step = target_step;
  for (const LoopNest& nest : nests) {
    nests_.push_back({nest, source_step, target_step, one_allocation, {}});
    group.move_bytes += nest.bytes();
  }
  groups_.push_back(group);
}

void IndexedCopy::close(const Group& group) {
  const std::span entries = std::span(entries_).subspan(group.first_entry, group.entry_count);
  for (std::size_t n = 0; n < group.nest_count; ++n) {
    nests_[group.first_nest + n].entries = entries;
  }
  bytes_ += group.move_count * group.move_bytes;
}

void IndexedCopy::finish(std::int64_t tile_bytes_max, std::size_t tile_entries_max) {
  for (std::size_t k = 0; k < groups_.size(); ++k) {
    close(groups_[k]);
    cut(k, tile_bytes_max, tile_entries_max);
  }
}

void IndexedCopy::finish() {
  for (std::size_t k = 0; k < groups_.size(); ++k) {
    const Group& group = groups_[k];
    close(group);
    if (group.entry_count == 0) continue;
    tiles_.push_back({k, 0, group.entry_count, group.move_count * group.move_bytes});
  }
}

void IndexedCopy::cut(std::size_t number, std::int64_t tile_bytes_max,
                      std::size_t tile_entries_max) {
  const Group& group = groups_[number];
  Tile tile{number, 0, 0, 0};
  for (std::size_t k = 0; k < group.entry_count; ++k) {
    const std::int64_t bytes = entries_[group.first_entry + k].count * group.move_bytes;
    const bool full = tile.entry_count >= std::max<std::size_t>(tile_entries_max, 1) ||
                      tile.bytes + bytes > tile_bytes_max;
    if (tile.entry_count > 0 && full) {
      tiles_.push_back(tile);
      tile = {number, k, 0, 0};
    }
    ++tile.entry_count;
    tile.bytes += bytes;
  }
  if (tile.entry_count > 0) tiles_.push_back(tile);
}

void IndexedCopy::tile(std::int64_t number, std::vector<IndexedNest>& nests) const {
  const Tile& tile = at(number);
  const Group& group = groups_[tile.group];
  nests.assign(nests_.begin() + static_cast<std::ptrdiff_t>(group.first_nest),
               nests_.begin() + static_cast<std::ptrdiff_t>(group.first_nest + group.nest_count));
  for (IndexedNest& nest : nests) {
    nest.entries = nest.entries.subspan(tile.first_entry, tile.entry_count);
  }
}

}  // namespace tranship
