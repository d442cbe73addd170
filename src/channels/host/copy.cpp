#include "channels/host/copy.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "channels/host/convert.hpp"
#include "channels/host/dispatch.hpp"
#include "channels/host/group.hpp"
#include "channels/host/kernels.hpp"
#include "channels/host/moves.hpp"
#include "channels/host/records.hpp"
#include "channels/host/runs.hpp"
#include "channels/host/shape.hpp"
#include "channels/host/short_runs.hpp"

namespace tranship {
namespace {

/// Nests below this size stay in the caches in any order.
constexpr std::int64_t grouped_bytes_min = 16 << 10;

/// Longest run, in bytes, that is copied by memcpy() without a look for a better way.
constexpr std::int64_t plain_run_bytes_max = 64 << 10;

/// Copies the first group of nests that walk the same records; returns its number of nests.
std::size_t copy_some(std::span<const LoopNest> nests, const std::byte* source, std::byte* target,
                      bool cold) {
  if (nests[0].conversion) {
    if (host::changes_bits(nests[0].conversion)) {
      host::convert_nest(nests[0], source, target, cold);
      return 1;
    }
    LoopNest plain = nests[0];
    plain.conversion = {};
    return copy_some({&plain, 1}, source, target, cold);
  }
  const host::Kernels& set = host::kernels();
  host::Shape shapes[host::group_shapes_max];
  if (!host::normalise(nests[0], source, target, shapes[0])) return 1;
  std::size_t count = 1;
  if (nests.size() > 1 && shapes[0].rank > 0 && shapes[0].bytes() >= grouped_bytes_min) {
    while (count < nests.size() && count < host::group_shapes_max && !nests[count].conversion &&
           host::normalise(nests[count], source, target, shapes[count]) &&
           host::same_records(shapes[0], shapes[count])) {
      ++count;
    }
  }
  host::WholeRecords records;
  if (count == 1) {
    host::copy_shape(shapes[0], set, cold);
  } else if (host::join_records({shapes, count}, records)) {
    host::copy_shape(records.shape, set, cold);
  } else {
    host::copy_group({shapes, count}, set, cold);
  }
  return count;
}

void copy_groups(std::span<const LoopNest> nests, const std::byte* source, std::byte* target,
                 bool cold) {
  while (!nests.empty()) nests = nests.subspan(copy_some(nests, source, target, cold));
}

/// Copies a list of runs: short ones sorted by length, others in blocks of some.
void copy_runs_of(const IndexedNest& list, const std::byte* source, std::byte* target, bool cold) {
  std::array<Run, 256> runs;
  std::size_t count = 0;
  host::ShortRunMover short_runs(source, target);
  host::each_run(list, [&](const Run& run) {
    if (run.bytes <= host::short_run_bytes_max) return short_runs.add(run);
    runs[count++] = run;
    if (count < runs.size()) return;
    copy_runs(runs, source, target, cold);
    count = 0;
  });
  copy_runs(std::span(runs).first(count), source, target, cold);
  short_runs.flush();
}

/// Copies a list whose entries are single elements, at each point of its nest.
void copy_elements(const IndexedNest& list, const std::byte* source, std::byte* target) {
  const std::int64_t bytes = list.nest.element_bytes;
  const host::EntriesKernel kernel = host::entries_kernel(bytes);
  each_point(list.nest, list.nest.source_offset, list.nest.target_offset, [&](const Run& point) {
    kernel(list.entries, bytes, source + point.source_offset, target + point.target_offset);
  });
}

/// Copies a list of nests, some at a time, so that those which walk the same records are grouped.
void copy_nests_of(const IndexedNest& list, const std::byte* source, std::byte* target, bool cold) {
  std::array<LoopNest, host::group_shapes_max> nests;
  std::size_t count = 0;
  for (const IndexedEntry& entry : list.entries) {
    nests[count++] = nest_of(list, entry);
    if (count < nests.size()) continue;
    copy_groups(nests, source, target, cold);
    count = 0;
  }
  copy_groups(std::span(nests).first(count), source, target, cold);
}

/// How the entries of a list are copied.
enum class ListKind {
  elements,  ///< each is one short element, at each point of the nest
  runs,      ///< each is one run, or a few short ones
  nests,
};

ListKind kind_of(const IndexedNest& list) {
  const bool single = std::all_of(list.entries.begin(), list.entries.end(),
                                  [](const IndexedEntry& entry) { return entry.count == 1; });
  const bool is_short = list.nest.element_bytes <= host::short_run_bytes_max;
  if (list.nest.rank != 0) {
    if (!host::names_short_nests(list)) return ListKind::nests;
    return single && host::is_list_in_loops(list) ? ListKind::elements : ListKind::runs;
  }
  if (single && is_short) return ListKind::elements;
  return single || list.moves_touch() ? ListKind::runs : ListKind::nests;
}

}  // namespace

void copy_nests(std::span<const LoopNest> nests, const std::byte* source, std::byte* target,
                bool cold) {
  // One short run, as most small copies are: to look for a better way takes as long as it does.
  const bool one_run = nests.size() == 1 && nests[0].rank == 0 && !nests[0].conversion;
  if (one_run && !cold && nests[0].element_bytes <= plain_run_bytes_max) {
    std::memcpy(target + nests[0].target_offset, source + nests[0].source_offset,
                static_cast<std::size_t>(nests[0].element_bytes));
    return;
  }
  copy_groups(nests, source, target, cold);
  if (cold) host::fence_streams();
}

void copy_indexed(std::span<const IndexedNest> lists, const std::byte* source, std::byte* target,
                  bool cold) {
  for (const IndexedNest& list : lists) {
    switch (kind_of(list)) {
      case ListKind::elements: copy_elements(list, source, target); break;
      case ListKind::runs: copy_runs_of(list, source, target, cold); break;
      case ListKind::nests: copy_nests_of(list, source, target, cold); break;
    }
  }
  if (cold) host::fence_streams();
}

}  // namespace tranship
