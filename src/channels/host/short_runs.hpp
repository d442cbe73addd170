// Short runs of any lengths, sorted by their length so that each length has a loop of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "channels/host/moves.hpp"
#include "data/indexed_nest.hpp"
#include "data/run.hpp"

namespace tranship::host {

/// Longer runs are copied one by one.
inline constexpr std::int64_t short_run_bytes_max = 64;
/// Nests of fewer points are copied point by point where a list names many of them.
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

/// Calls `visit` for each point of a nest, the innermost of its first loops fastest.
template <typename Visit>
void each_point(const LoopNest& nest, int done, std::int64_t source, std::int64_t target,
                const Visit& visit) {
  if (done == nest.rank) return visit(Run{source, target, nest.element_bytes});
  const Loop& loop = nest.loops[static_cast<std::size_t>(nest.rank - 1 - done)];
  for (std::int64_t turn = 0; turn < loop.extent; ++turn) {
    each_point(nest, done + 1, source, target, visit);
    source += loop.source_stride;
    target += loop.target_stride;
  }
}

/// Calls `visit(const Run&)` for each contiguous run of a list, in the order in which they lie.
template <typename Visit>
void each_run(const IndexedNest& list, const Visit& visit) {
  const LoopNest& nest = list.nest;
  const bool touch = list.moves_touch();
  const auto each_move = [&](std::int64_t source, std::int64_t target, const auto& each) {
    for (const IndexedEntry& entry : list.entries) {
      std::int64_t from = source + entry.source_offset;
      std::int64_t to = target + entry.target_offset;
      const std::int64_t moves = touch ? 1 : entry.count;
      for (std::int64_t move = 0; move < moves; ++move) {
        each(from, to, touch ? entry.count : 1);
        from += list.source_step;
        to += list.target_step;
      }
    }
  };
  if (is_list_in_loops(list)) {
    each_point(nest, 0, nest.source_offset, nest.target_offset, [&](const Run& point) {
      each_move(point.source_offset, point.target_offset,
                [&](std::int64_t from, std::int64_t to, std::int64_t) {
                  visit(Run{from, to, nest.element_bytes});
                });
    });
    return;
  }
  each_move(nest.source_offset, nest.target_offset,
            [&](std::int64_t from, std::int64_t to, std::int64_t count) {
              each_point(nest, 0, from, to, [&](const Run& point) {
                visit(Run{point.source_offset, point.target_offset, point.bytes * count});
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
