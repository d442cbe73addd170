#include "channels/host/copy.hpp"

#include <array>

#include "channels/host/dispatch.hpp"
#include "channels/host/group.hpp"
#include "channels/host/kernels.hpp"
#include "channels/host/records.hpp"
#include "channels/host/runs.hpp"
#include "channels/host/shape.hpp"

namespace tranship {
namespace {

/// Nests below this size stay in the caches in any order.
constexpr std::int64_t grouped_bytes_min = 16 << 10;

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

/// Copies indexed nests that move nothing but runs.
void copy_runs_of(std::span<const IndexedNest> nests, const std::byte* source, std::byte* target,
                  bool cold) {
  std::array<Run, 256> runs;
  std::size_t count = 0;
  (void)for_each_run(nests, [&](const Run& run) {
    runs[count++] = run;
    if (count < runs.size()) return true;
    copy_runs(runs, source, target, cold);
    count = 0;
    return true;
  });
  copy_runs(std::span(runs).first(count), source, target, cold);
}

}  // namespace

void copy_nests(std::span<const LoopNest> nests, const std::byte* source, std::byte* target,
                bool cold) {
  while (!nests.empty()) nests = nests.subspan(copy_some(nests, source, target, cold));
  if (cold) host::fence_streams();
}

void copy_indexed(std::span<const IndexedNest> nests, const std::byte* source, std::byte* target,
                  bool cold) {
  if (moves_runs(nests)) return copy_runs_of(nests, source, target, cold);
  for (const IndexedNest& indexed : nests) {
    for (const IndexedEntry& entry : indexed.entries) {
      const LoopNest nest = nest_of(indexed, entry);
      (void)copy_some({&nest, 1}, source, target, cold);
    }
  }
  if (cold) host::fence_streams();
}

}  // namespace tranship
