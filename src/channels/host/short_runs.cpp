#include "channels/host/short_runs.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace tranship::host {
namespace {

/// The offsets of one side of all moves.
struct Reach {
  std::int64_t low = std::numeric_limits<std::int64_t>::max();
  std::int64_t high = std::numeric_limits<std::int64_t>::min();

  void add(std::int64_t offset, std::int64_t last) {
    low = std::min({low, offset, offset + last});
    high = std::max({high, offset, offset + last});
  }
  std::int64_t span(std::int64_t bytes) const { return high - low + bytes; }
};

}  // namespace

bool is_list_in_loops(const IndexedNest& list) {
  const LoopNest& nest = list.nest;
  if (nest.rank == 0 || list.entries.size() < 2) return false;
  Reach source;
  Reach target;
  for (const IndexedEntry& entry : list.entries) {
    source.add(entry.source_offset, (entry.count - 1) * list.source_step);
    target.add(entry.target_offset, (entry.count - 1) * list.target_step);
  }
  return source.span(nest.element_bytes) <= std::abs(nest.loops[0].source_stride) &&
         target.span(nest.element_bytes) <= std::abs(nest.loops[0].target_stride);
}

}  // namespace tranship::host
