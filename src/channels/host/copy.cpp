#include "channels/host/copy.hpp"

#include <algorithm>
#include <array>

#include "channels/host/dispatch.hpp"
#include "channels/host/group.hpp"
#include "channels/host/kernels.hpp"
#include "channels/host/moves.hpp"
#include "channels/host/records.hpp"
#include "channels/host/runs.hpp"
#include "channels/host/shape.hpp"

namespace tranship {
namespace {

/// Nests below this size stay in the caches in any order.
constexpr std::int64_t grouped_bytes_min = 16 << 10;
/// Longer elements are runs.
constexpr std::int64_t element_bytes_max = 64;

/// Copies the first group of nests that walk the same records; returns its number of nests.
std::size_t copy_some(std::span<const LoopNest> nests, const std::byte* source, std::byte* target,
                      bool cold) {
  const host::Kernels& set = host::kernels();
  host::Shape shapes[host::group_shapes_max];
  if (!host::normalise(nests[0], source, target, shapes[0])) return 1;
  std::size_t count = 1;
  if (nests.size() > 1 && shapes[0].rank > 0 && shapes[0].bytes() >= grouped_bytes_min) {
    while (count < nests.size() && count < host::group_shapes_max &&
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

/// Copies a list of runs, in blocks of some.
void copy_runs_of(const IndexedNest& list, const std::byte* source, std::byte* target, bool cold) {
  std::array<Run, 256> runs;
  std::size_t count = 0;
  (void)for_each_run({&list, 1}, [&](const Run& run) {
    runs[count++] = run;
    if (count < runs.size()) return true;
    copy_runs(runs, source, target, cold);
    count = 0;
    return true;
  });
  copy_runs(std::span(runs).first(count), source, target, cold);
}

/// How the entries of a list are copied.
enum class ListKind {
  elements,  ///< each is one short element
  runs,      ///< each is one run
  nests,
};

ListKind kind_of(const IndexedNest& list) {
  if (list.nest.rank != 0) return ListKind::nests;
  const bool single = std::all_of(list.entries.begin(), list.entries.end(),
                                  [](const IndexedEntry& entry) { return entry.count == 1; });
  if (single && list.nest.element_bytes <= element_bytes_max) return ListKind::elements;
  return single || list.moves_touch() ? ListKind::runs : ListKind::nests;
}

}  // namespace

void copy_nests(std::span<const LoopNest> nests, const std::byte* source, std::byte* target,
                bool cold) {
  while (!nests.empty()) nests = nests.subspan(copy_some(nests, source, target, cold));
  if (cold) host::fence_streams();
}

void copy_indexed(std::span<const IndexedNest> lists, const std::byte* source, std::byte* target,
                  bool cold) {
  for (const IndexedNest& list : lists) {
    switch (kind_of(list)) {
      case ListKind::elements:
        host::entries_kernel(list.nest.element_bytes)(list.entries, list.nest.element_bytes,
                                                      source + list.nest.source_offset,
                                                      target + list.nest.target_offset);
        break;
      case ListKind::runs: copy_runs_of(list, source, target, cold); break;
      case ListKind::nests:
        for (const IndexedEntry& entry : list.entries) {
          const LoopNest nest = nest_of(list, entry);
          (void)copy_some({&nest, 1}, source, target, cold);
        }
        break;
    }
  }
  if (cold) host::fence_streams();
}

}  // namespace tranship
