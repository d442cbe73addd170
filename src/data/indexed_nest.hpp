// Lists of places in the one form of a copy (design: I6): a loop nest, and where it is moved.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "data/loop_nest.hpp"
#include "data/run.hpp"

namespace tranship {

/// One entry of an indexed nest's list: the nest is moved `count` times, from one step to the next.
struct IndexedEntry {
  std::int64_t source_offset = 0;  ///< bytes, added to the nest's own offset
  std::int64_t target_offset = 0;  ///< bytes, added to the nest's own offset
  std::int64_t count = 1;

  bool operator==(const IndexedEntry&) const = default;
};

/// A loop nest that is moved to and from each place of a list, such as the pages of a cache. Law:
/// it equals, entry by entry, the plain nests of nest_of(). Moves of one indexed nest write
/// different bytes, so that they may go in any order. A value that refers to the list, which its
/// maker owns; several nests may share one list.
struct IndexedNest {
  LoopNest nest;
  std::int64_t source_step = 0;  ///< bytes between two moves of one entry
  std::int64_t target_step = 0;
  /// Whether all moves stay in one allocation on each side. Moves that touch may lie in two, which
  /// loads and stores do not notice, but which a copy command refuses (CUDA: one that leaves the
  /// allocation or the pinned range that it starts in).
  bool one_allocation = true;
  std::span<const IndexedEntry> entries;

  std::int64_t moves() const;
  std::int64_t bytes() const;
  /// Whether the nest is a contiguous run, and an entry's moves of it are one run.
  bool moves_touch() const {
    return nest.rank == 0 && source_step == nest.element_bytes && target_step == nest.element_bytes;
  }
};

/// Returns the plain nest that an entry stands for. The moves of the entry become longer elements
/// or a longer loop where they touch, else one loop more.
LoopNest nest_of(const IndexedNest& indexed, const IndexedEntry& entry);

/// Appends the plain nests of all entries to `nests`, for channels that carry no others: one for
/// each entry, or for each move where moves may lie in several allocations. Allocates only when
/// `nests` grows.
void expand(std::span<const IndexedNest> indexed, std::vector<LoopNest>& nests);

/// Whether the nests move nothing but contiguous runs.
bool moves_runs(std::span<const IndexedNest> indexed);

/// Calls `visit(const Run&)` for each contiguous run of nests of which moves_runs() is true, until
/// a call returns false. Moves of one entry that touch are one run. Returns whether no call did.
template <typename Visit>
bool for_each_run(std::span<const IndexedNest> indexed, const Visit& visit) {
  for (const IndexedNest& one : indexed) {
    const std::int64_t bytes = one.nest.element_bytes;
    const bool touch = one.moves_touch();
    for (const IndexedEntry& entry : one.entries) {
      Run run{one.nest.source_offset + entry.source_offset,
              one.nest.target_offset + entry.target_offset, touch ? entry.count * bytes : bytes};
      for (std::int64_t left = touch ? 1 : entry.count; left > 0; --left) {
        if (!visit(run)) return false;
        run.source_offset += one.source_step;
        run.target_offset += one.target_step;
      }
    }
  }
  return true;
}

enum class ListSide { source, target };

/// Makes one side of the nests dense: move after move, nest after nest, from offset 0 on. Both the
/// copy from the lists to a buffer and that from the buffer to the lists are made from the same
/// nests. `entries` holds the new lists.
void make_dense(std::vector<IndexedNest>& nests, ListSide side, std::vector<IndexedEntry>& entries);

/// The nests of one indexed copy and their lists, and how they are cut into tiles. Owns both; what
/// it returns stays valid until it is changed, also when it is moved. Threads: one while it is
/// changed, then all.
class IndexedCopy {
 public:
  IndexedCopy() = default;
  IndexedCopy(IndexedCopy&&) = default;
  IndexedCopy& operator=(IndexedCopy&&) = default;
  IndexedCopy(const IndexedCopy&) = delete;  // its nests refer to its own entries
  IndexedCopy& operator=(const IndexedCopy&) = delete;
  ~IndexedCopy() = default;

  /// Forgets everything, but keeps the memory for the next copy.
  void clear();

  /// Opens a group of nests that share one list, which is empty at first.
  void begin_group(std::span<const LoopNest> nests, std::int64_t source_step,
                   std::int64_t target_step, bool one_allocation);
  /// Adds a move of the last group's nests: to the last entry if it lies one step behind that
  /// entry on both sides and the entry has fewer than `count_max` moves (0: no limit).
  void add_move(std::int64_t source_offset, std::int64_t target_offset,
                std::int64_t count_max = 0) {
    Group& group = groups_.back();
    const bool follows = group.entry_count > 0 && group.nest_count > 0 &&
                         source_offset == group.next_source && target_offset == group.next_target &&
                         (count_max == 0 || entries_.back().count < count_max);
    if (follows) {
      ++entries_.back().count;
    } else {
      entries_.push_back({source_offset, target_offset, 1});
      ++group.entry_count;
    }
    ++group.move_count;
    group.next_source = source_offset + group.source_step;
    group.next_target = target_offset + group.target_step;
  }
  /// Opens a group as begin_group() does, and adds to it what `entry(k)` returns for each k below
  /// `count`: an entry of any number of moves. Entries that follow each other become one, and no
  /// entry has more than `count_max` moves (0: no limit). The state stays in registers.
  template <typename Entry>
  void add_group(std::span<const LoopNest> nests, std::int64_t source_step,
                 std::int64_t target_step, std::size_t count, std::int64_t count_max,
                 const Entry& entry);
  /// The nests of the group that was opened last, without their lists; empty if there is none.
  std::span<const IndexedNest> last_group() const {
    return groups_.empty() ? std::span<const IndexedNest>()
                           : std::span(nests_).subspan(groups_.back().first_nest);
  }
  /// Ends the changes, and cuts each group into tiles of at most `tile_bytes_max` bytes, unless a
  /// single entry has more, and `tile_entries_max` entries.
  void finish(std::int64_t tile_bytes_max, std::size_t tile_entries_max);
  /// Ends the changes; each group is one tile.
  void finish();

  /// The nests of all groups; they have their lists after finish().
  std::span<const IndexedNest> nests() const { return nests_; }
  std::int64_t bytes() const { return bytes_; }
  std::int64_t tiles() const { return static_cast<std::int64_t>(tiles_.size()); }
  std::int64_t tile_bytes(std::int64_t tile) const { return at(tile).bytes; }
  /// Makes `nests` the nests of one tile. Allocates only when `nests` grows.
  void tile(std::int64_t tile, std::vector<IndexedNest>& nests) const;

 private:
  struct Group {
    std::size_t first_nest = 0;
    std::size_t nest_count = 0;
    std::size_t first_entry = 0;
    std::size_t entry_count = 0;
    std::int64_t move_count = 0;
    std::int64_t move_bytes = 0;
    std::int64_t source_step = 0;
    std::int64_t target_step = 0;
    std::int64_t next_source = 0;  ///< where a move follows the last entry
    std::int64_t next_target = 0;
  };
  struct Tile {
    std::size_t group = 0;
    std::size_t first_entry = 0;  ///< of the group
    std::size_t entry_count = 0;
    std::int64_t bytes = 0;
  };
  const Tile& at(std::int64_t tile) const { return tiles_[static_cast<std::size_t>(tile)]; }
  /// Gives the nests of the group their list, and counts its bytes.
  void close(const Group& group);
  void cut(std::size_t group, std::int64_t tile_bytes_max, std::size_t tile_entries_max);

  std::vector<IndexedNest> nests_;
  std::vector<IndexedEntry> entries_;
  std::vector<Group> groups_;
  std::vector<Tile> tiles_;
  std::int64_t bytes_ = 0;
};

template <typename Entry>
void IndexedCopy::add_group(std::span<const LoopNest> nests, std::int64_t source_step,
                            std::int64_t target_step, std::size_t count, std::int64_t count_max,
                            const Entry& entry) {
  begin_group(nests, source_step, target_step, true);
  entries_.reserve(entries_.size() + count);
  const std::int64_t limit = count_max == 0 ? std::numeric_limits<std::int64_t>::max() : count_max;
  std::array<IndexedEntry, 64> block;  // appended at once
  std::size_t filled = 0;
  const auto append = [&](const IndexedEntry& one) {
    block[filled++] = one;
    if (filled < block.size()) return;
    entries_.insert(entries_.end(), block.begin(), block.end());
    filled = 0;
  };
  IndexedEntry last{0, 0, 0};
  std::int64_t next_source = 0;
  std::int64_t next_target = 0;
  std::int64_t moves = 0;
  for (std::size_t k = 0; k < count; ++k) {
    IndexedEntry one = entry(k);
    moves += one.count;
    const bool follows = one.source_offset == next_source && one.target_offset == next_target &&
                         one.count <= limit - last.count;
    next_source = one.source_offset + one.count * source_step;
    next_target = one.target_offset + one.count * target_step;
    if (follows && last.count > 0) {
      last.count += one.count;
      continue;
    }
    if (last.count > 0) append(last);
    for (; one.count > limit; one.count -= limit) {
      append({one.source_offset, one.target_offset, limit});
      one.source_offset += limit * source_step;
      one.target_offset += limit * target_step;
    }
    last = one;
  }
  if (last.count > 0) append(last);
  entries_.insert(entries_.end(), block.begin(),
                  block.begin() + static_cast<std::ptrdiff_t>(filled));
  Group& group = groups_.back();
  group.entry_count = entries_.size() - group.first_entry;
  group.move_count = moves;
  group.next_source = next_source;
  group.next_target = next_target;
}

}  // namespace tranship
