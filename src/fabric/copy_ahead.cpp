#include "fabric/copy_ahead.hpp"

#include <algorithm>
#include <cstdlib>

#include "fabric/command.hpp"

namespace tranship {
namespace {

constexpr std::int64_t line_bytes = 64;
constexpr std::int64_t group_bytes = 32 * 1024;  // of the next group: half of a first-level cache
constexpr std::int64_t group_rows_min = 16;      // a transpose works on blocks of 16 rows
constexpr std::int64_t lines_max = 1024;

/// A nest seen as rows far apart in the source.
struct Rows {
  std::size_t loop = 0;    ///< which loop steps from row to row
  std::int64_t count = 0;  ///< 0: nothing to gain
  std::int64_t stride = 0;
  std::int64_t first = 0;  ///< of the first row, from the source's base
  std::int64_t bytes = 0;  ///< that one row spans
  std::int64_t group = 0;  ///< rows in a group
};

Rows rows_of(const LoopNest& nest) {
  Rows rows;
  for (std::size_t k = 0; k < static_cast<std::size_t>(nest.rank); ++k) {
    if (std::llabs(nest.loops[k].source_stride) > std::llabs(rows.stride)) {
      rows.loop = k;
      rows.stride = nest.loops[k].source_stride;
    }
  }
  if (rows.stride == 0) return rows;
  LoopNest row = nest;
  row.loops[rows.loop].extent = 1;
  const auto extent = touched(row, Side::source);
  if (!extent) return rows;
  rows.first = extent->first;
  rows.bytes = extent->end - extent->first;
  // Rows that touch, or mostly holes, gain nothing.
  if (rows.bytes >= std::llabs(rows.stride) || rows.bytes > 4 * row.bytes()) return rows;
  rows.count = nest.loops[rows.loop].extent;
  rows.group = std::max(group_rows_min, group_bytes / rows.bytes);
  return rows;
}

void prefetch_rows(const Rows& rows, std::int64_t begin, const std::byte* source) {
  const std::int64_t end = std::min(begin + rows.group, rows.count);
  std::int64_t left = lines_max;
  for (std::int64_t k = begin; k < end && left > 0; ++k) {
    const std::byte* row = source + rows.first + k * rows.stride;
    for (std::int64_t offset = 0; offset < rows.bytes && left > 0; offset += line_bytes, --left) {
      __builtin_prefetch(row + offset, 0, 3);
    }
  }
}

}  // namespace

void copy_ahead(const CopyNests& copy, std::span<const LoopNest> nests, const std::byte* source,
                std::byte* target) {
  const Rows whole = nests.size() == 1 ? rows_of(nests[0]) : Rows{};
  if (whole.count <= whole.group) {
    copy(nests, source, target, false);
    return;
  }
  LoopNest group = nests[0];
  Loop& loop = group.loops[whole.loop];
  for (std::int64_t begin = 0; begin < whole.count; begin += whole.group) {
    prefetch_rows(whole, begin + whole.group, source);
    loop.extent = std::min(whole.group, whole.count - begin);
    copy({&group, 1}, source, target, false);
    group.source_offset += whole.group * loop.source_stride;
    group.target_offset += whole.group * loop.target_stride;
  }
}

void prefetch_first(const LoopNest& nest, const std::byte* source) {
  const Rows rows = rows_of(nest);
  if (rows.count > 0) prefetch_rows(rows, 0, source);
}

}  // namespace tranship
