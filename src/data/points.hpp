// The points of a loop nest, one by one.
#pragma once

#include <cstdint>

#include "data/loop_nest.hpp"
#include "data/run.hpp"

namespace tranship {

/// Calls `visit(const Run&)` with the element at each point of a nest whose first point lies at
/// `source` and `target`; the first loop is the fastest. `outer`: Loops that are walked already.
template <typename Visit>
void each_point(const LoopNest& nest, std::int64_t source, std::int64_t target, const Visit& visit,
                int outer = 0) {
  if (outer == nest.rank) return visit(Run{source, target, nest.element_bytes});
  const Loop& loop = nest.loops[static_cast<std::size_t>(nest.rank - 1 - outer)];
  for (std::int64_t turn = 0; turn < loop.extent; ++turn) {
    each_point(nest, source, target, visit, outer + 1);
    source += loop.source_stride;
    target += loop.target_stride;
  }
}

}  // namespace tranship
