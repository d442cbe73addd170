#include "engine/copy_pages.hpp"

#include <algorithm>

#include "base/at.hpp"
#include "engine/checks.hpp"
#include "engine/copy_all.hpp"
#include "engine/spare_copy.hpp"

namespace tranship {
namespace {

/// The part of an array that has one index along the first dimension.
Array page_of(const Array& array, std::int64_t page) {
  Array part = array;
  part.view.lower[0] += page;
  part.view.extents[0] = 1;
  return part;
}

/// Entries of one tile, so that channels which need plain nests keep few of them.
constexpr std::size_t tile_entries_max = 1024;
/// Entries that one launch carries if their pages are not contiguous: each is planned by itself.
constexpr std::size_t launch_entries_max = 4096;

/// Page size in bytes from which each page is worth a copy of its own over several paths at once.
constexpr std::int64_t lanes_page_bytes = std::int64_t{8} << 20;

/// Whether the plan's one channel should carry the pages as a list. A page that is longer than a
/// tile is a copy of its own, which goes in tiles.
bool takes_lists(const Plan& plan, bool on_gpu, std::int64_t page_bytes) {
  return plan.hops.size() == 1 && (on_gpu || plan.direct || page_bytes <= plan.tile_bytes);
}

bool fits_launch(const IndexedCopy& copy) {
  const auto nests = copy.nests();
  return std::all_of(nests.begin(), nests.end(), [](const IndexedNest& one) {
    return one.nest.rank == 0 || one.entries.size() <= launch_entries_max;
  });
}

/// Copies pages that follow each other on both sides as one region, beside the others.
Result<Event> copy_runs(CopyRunner& runner, const Array& source, const Array& target,
                        const PageLists& pages, const CopyOptions& options) {
  std::vector<CopyPair> runs;
  for (std::size_t begin = 0, end = 0; begin < pages.source.size(); begin = end) {
    do {
      ++end;
    } while (end < pages.source.size() && pages.source[end] == pages.source[end - 1] + 1 &&
             pages.target[end] == pages.target[end - 1] + 1);
    CopyPair& run = runs.emplace_back();
    run.source = page_of(source, pages.source[begin]);
    run.target = page_of(target, pages.target[begin]);
    run.source.view.extents[0] = run.target.view.extents[0] =
        static_cast<std::int64_t>(end - begin);
  }
  return copy_each(runner, runs, options);
}

}  // namespace

Result<Event> copy_pages(CopyRunner& runner, Array source, Array target, const PageLists& pages,
                         const CopyOptions& options) {
  if (Status s = check_pages(source, target, pages.source, pages.target); !s) return s.error();
  if (pages.source.empty()) {
    source.view.extents[0] = target.view.extents[0] = 0;
    return runner.copy(source, target, options);
  }
  auto one = runner.planner().query_of(page_of(source, pages.source[0]),
                                       page_of(target, pages.target[0]), options);
  if (!one) return one.error();
  // Planned as so many neighbouring pages.
  PlanQuery all = *one;
  const auto count = static_cast<std::int64_t>(pages.source.size());
  all.source.lower[0] = source.view.lower[0];
  all.target.lower[0] = target.view.lower[0];
  all.source.extents[0] = all.target.extents[0] =
      std::min({count, source.view.extents[0], target.view.extents[0]});
  const std::int64_t page_bytes = one->source.bytes();
  if (page_bytes < lanes_page_bytes) all.lanes_max = 1;
  auto plan = runner.planner().plan_of(all);
  if (!plan) return plan.error();
  if (page_bytes == 0) return Event(*plan);
  const bool in_order = one->target.mapping == target.view.mapping;
  const bool on_gpu = traits_of(runner.profile().channels[at((*plan)->hops[0].channel)].kind).gpu;
  if (!in_order || !takes_lists(**plan, on_gpu, page_bytes)) {
    return copy_runs(runner, source, target, pages, options);
  }
  SpareCopy spare;
  IndexedCopy& copy = spare.copy();
  const std::int64_t tile_bytes = std::max((*plan)->tile_bytes, page_bytes);
  const bool lowered = lower_pages(
      {all.source.mapping.get(), all.source.lower}, {all.target.mapping.get(), all.target.lower},
      one->source.extents, (*plan)->hops[0].fields, pages, tile_bytes / page_bytes, copy);
  if (on_gpu && options.after.empty()) {
    copy.finish();  // it starts now, in one launch
  } else {
    copy.finish(tile_bytes, tile_entries_max);
  }
  if (!lowered || !fits_launch(copy)) {
    return copy_runs(runner, source, target, pages, options);
  }
  auto made = std::make_shared<Plan>(**plan);
  made->nests.clear();
  made->extents[0] = count;
  made->bytes = copy.bytes();
  made->tile_bytes = 0;  // tiles differ in size
  made->tiles = copy.tiles();
  return runner.carry(made, source, target, options, {{}, &copy});
}

}  // namespace tranship
