// Short runs of any lengths, sorted by their length so that each length has a loop of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "channels/host/moves.hpp"
#include "data/indexed_nest.hpp"
#include "data/points.hpp"
#include "data/run.hpp"

namespace tranship::host {

/// Longest run, in bytes, that ShortRuns collects; longer ones are copied one by one.
inline constexpr std::int64_t short_run_bytes_max = 64;
/// Nests with at most this many points are copied point by point if a list has many of them.
inline constexpr std::int64_t short_nest_points_max = 128;

/// Whether all moves of the list lie within one turn of the nest's innermost loop, on both sides: a
/// list that is repeated by loops.
bool is_list_in_loops(const IndexedNest& list);

/// Whether the list names many small nests of short elements, or is repeated by loops.
inline bool names_short_nests(const IndexedNest& list) {
  if (list.nest.element_bytes > short_run_bytes_max || list.entries.size() < 2) return false;
  const std::int64_t points = list.nest.bytes() / list.nest.element_bytes;
  return points < short_nest_points_max || is_list_in_loops(list);
}

/// Calls `visit(const Run&)` for each contiguous run of a list, in the order in which they lie.
template <typename Visit>
void each_run(const IndexedNest& list, const Visit& visit) {
  const LoopNest& nest = list.nest;
  IndexedNest moves = list;  // of the nest's first point alone
  moves.nest.rank = 0;
  const auto each_move = [&](const auto& each) {
    (void)for_each_run({&moves, 1}, [&](const Run& run) {
      each(run);
      return true;
    });
  };
  if (is_list_in_loops(list)) {
    each_point(nest, nest.source_offset, nest.target_offset, [&](const Run& point) {
      moves.nest.source_offset = point.source_offset;
      moves.nest.target_offset = point.target_offset;
      each_move(visit);
    });
    return;
  }
  each_move([&](const Run& move) {
    each_point(nest, move.source_offset, move.target_offset, [&](const Run& point) {
      visit(Run{point.source_offset, point.target_offset, move.bytes});
    });
  });
}

/// Collects short runs and copies those of one length together. Has 50 KiB; copies what is left
/// when flush() is called.
class ShortRunMover {
 public:
  ShortRunMover(const std::byte* source, std::byte* target) : source_(source), target_(target) {}

  /// Adds a run of at most short_run_bytes_max bytes.
  void add(const Run& run) {
    const auto length = static_cast<std::size_t>(run.bytes);
    Waiting& waiting = waiting_[length];
    waiting.runs[waiting.count++] = {run.source_offset, run.target_offset, 1};
    if (waiting.count == runs_max) move(length);
  }

  void flush() {
    for (std::size_t length = 1; length < waiting_.size(); ++length) {
      if (waiting_[length].count > 0) move(length);
    }
  }

 private:
  static constexpr std::size_t runs_max = 32;
  struct Waiting {
    Waiting() {}
    std::size_t count = 0;
    union {  // is not initialised
      IndexedEntry runs[runs_max];
    };
  };

  void move(std::size_t length) {
    Waiting& waiting = waiting_[length];
    const auto bytes = static_cast<std::int64_t>(length);
    entries_kernel(bytes)({waiting.runs, waiting.count}, bytes, source_, target_);
    waiting.count = 0;
  }

  const std::byte* source_;
  std::byte* target_;
  std::array<Waiting, short_run_bytes_max + 1> waiting_;
};

}  // namespace tranship::host
