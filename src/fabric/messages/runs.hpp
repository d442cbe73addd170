// Iteration over the contiguous runs of a nest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

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

/// Calls `visit(source offset, target offset)` for each run of `nest.element_bytes` until a call
/// returns false. Returns whether no call did.
template <typename Visit>
bool for_each_run(const LoopNest& nest, Visit&& visit) {
  std::array<std::int64_t, LoopNest::loops_max> position{};
  for (std::int64_t left = runs_of(nest); left > 0; --left) {
    std::int64_t source = nest.source_offset;
    std::int64_t target = nest.target_offset;
    for (std::size_t k = 0; k < static_cast<std::size_t>(nest.rank); ++k) {
      source += position[k] * nest.loops[k].source_stride;
      target += position[k] * nest.loops[k].target_stride;
    }
    if (!visit(source, target)) return false;
    for (std::size_t k = 0; k < static_cast<std::size_t>(nest.rank); ++k) {
      if (++position[k] < nest.loops[k].extent) break;
      position[k] = 0;
    }
  }
  return true;
}

}  // namespace tranship::fabric
