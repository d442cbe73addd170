// Iteration over the contiguous runs of nests and of lists.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "data/indexed_nest.hpp"
#include "data/loop_nest.hpp"

namespace tranship::fabric {

inline std::int64_t runs_of(const LoopNest& nest) {
  return nest.element_bytes == 0 ? 0 : nest.bytes() / nest.element_bytes;
}

inline std::int64_t runs_of(std::span<const LoopNest> nests) {
  std::int64_t runs = 0;
  for (const LoopNest& nest : nests) runs += runs_of(nest);
  return runs;
}

/// Returns the number of runs of lists that move nothing else.
inline std::int64_t runs_of(std::span<const IndexedNest> lists) {
  std::int64_t runs = 0;
  for (const IndexedNest& one : lists) {
    runs += one.moves_touch() ? static_cast<std::int64_t>(one.entries.size()) : one.moves();
  }
  return runs;
}

/// Calls `visit(const Run&)` for each run of the nest from number `first` on, until a call returns
/// false. Returns whether no call did.
template <typename Visit>
bool for_each_run(const LoopNest& nest, const Visit& visit, std::int64_t first = 0) {
  std::array<std::int64_t, LoopNest::loops_max> position{};
  std::int64_t rest = first;
  for (std::size_t k = 0; k < static_cast<std::size_t>(nest.rank) && rest > 0; ++k) {
    position[k] = rest % nest.loops[k].extent;
    rest /= nest.loops[k].extent;
  }
  for (std::int64_t left = runs_of(nest) - first; left > 0; --left) {
    std::int64_t source = nest.source_offset;
    std::int64_t target = nest.target_offset;
    for (std::size_t k = 0; k < static_cast<std::size_t>(nest.rank); ++k) {
      source += position[k] * nest.loops[k].source_stride;
      target += position[k] * nest.loops[k].target_stride;
    }
    if (!visit(Run{source, target, nest.element_bytes})) return false;
    for (std::size_t k = 0; k < static_cast<std::size_t>(nest.rank); ++k) {
      if (++position[k] < nest.loops[k].extent) break;
      position[k] = 0;
    }
  }
  return true;
}

/// Visits the runs as above, of nests and of lists that move nothing but runs.
template <typename Visit>
bool for_each_run(std::span<const LoopNest> nests, std::span<const IndexedNest> lists,
                  const Visit& visit) {
  for (const LoopNest& nest : nests) {
    if (!for_each_run(nest, visit)) return false;
  }
  return tranship::for_each_run(lists, visit);
}

}  // namespace tranship::fabric
