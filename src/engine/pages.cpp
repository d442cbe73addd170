// Copies of lists of pages, which an engine makes of the parts that all copies have.
#include <algorithm>

#include "base/at.hpp"
#include "data/page_lowering.hpp"
#include "engine/checks.hpp"
#include "engine/engine.hpp"
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

/// Whether the plan's one channel should carry the pages as a list. A page that is longer than a
/// tile is a copy of its own, which goes in tiles.
bool takes_lists(const Plan& plan, const Profile& profile, std::int64_t page_bytes) {
  if (plan.hops.size() != 1) return false;
  const bool gpu = traits_of(profile.channels[at(plan.hops[0].channel)].kind).gpu;
  return gpu || plan.direct || page_bytes <= plan.tile_bytes;
}

bool fits_launch(const IndexedCopy& copy) {
  const auto nests = copy.nests();
  return std::all_of(nests.begin(), nests.end(), [](const IndexedNest& one) {
    return one.nest.rank == 0 || one.entries.size() <= launch_entries_max;
  });
}

}  // namespace

Result<Event> Engine::copy_pages(const Array& given_source, const Array& given_target,
                                 std::span<const std::int64_t> source_pages,
                                 std::span<const std::int64_t> target_pages,
                                 const CopyOptions& options) {
  const auto entered = enter();
  if (!entered) return entered.error();
  Array source = given_source;
  Array target = given_target;
  if (Status status = resolve(source, target); !status) return status.error();
  if (Status s = check_pages(source, target, source_pages, target_pages); !s) return s.error();
  if (source_pages.empty()) {
    source.view.extents[0] = target.view.extents[0] = 0;
    return copy_resolved(source, target, options);
  }
  auto one = query_of(page_of(source, source_pages[0]), page_of(target, target_pages[0]), options);
  if (!one) return one.error();
  // Planned as so many neighbouring pages.
  PlanQuery all = *one;
  const auto count = static_cast<std::int64_t>(source_pages.size());
  all.source.lower[0] = source.view.lower[0];
  all.target.lower[0] = target.view.lower[0];
  all.source.extents[0] = all.target.extents[0] =
      std::min({count, source.view.extents[0], target.view.extents[0]});
  auto plan = plan_of(all);
  if (!plan) return plan.error();
  const std::int64_t page_bytes = one->source.bytes();
  if (page_bytes == 0) return Event(*plan, nullptr, this);
  const bool in_order = one->target.mapping == target.view.mapping;
  if (!in_order || !takes_lists(**plan, options_.profile, page_bytes)) {
    return copy_runs(source, target, source_pages, target_pages, options);
  }
  SpareCopy spare;
  IndexedCopy& copy = spare.copy();
  const std::int64_t tile_bytes = std::max((*plan)->tile_bytes, page_bytes);
  const bool lowered = lower_pages({all.source.mapping.get(), all.source.lower},
                                   {all.target.mapping.get(), all.target.lower},
                                   one->source.extents, (*plan)->hops[0].fields,
                                   {source_pages, target_pages}, tile_bytes / page_bytes, copy);
  copy.finish(tile_bytes, tile_entries_max);
  if (!lowered || !fits_launch(copy)) {
    return copy_runs(source, target, source_pages, target_pages, options);
  }
  auto made = std::make_shared<Plan>(**plan);
  made->nests.clear();
  made->extents[0] = count;
  made->bytes = copy.bytes();
  made->tile_bytes = 0;  // tiles differ in size
  made->tiles = copy.tiles();
  return carry(made, source, target, options, {{}, &copy});
}

/// Pages that follow each other on both sides are one copy.
Result<Event> Engine::copy_runs(const Array& source, const Array& target,
                                std::span<const std::int64_t> source_pages,
                                std::span<const std::int64_t> target_pages,
                                const CopyOptions& options) {
  std::vector<CopyPair> runs;
  for (std::size_t begin = 0, end = 0; begin < source_pages.size(); begin = end) {
    do {
      ++end;
    } while (end < source_pages.size() && source_pages[end] == source_pages[end - 1] + 1 &&
             target_pages[end] == target_pages[end - 1] + 1);
    CopyPair& run = runs.emplace_back();
    run.source = page_of(source, source_pages[begin]);
    run.target = page_of(target, target_pages[begin]);
    run.source.view.extents[0] = run.target.view.extents[0] =
        static_cast<std::int64_t>(end - begin);
  }
  return copy_each(runs, options);
}

}  // namespace tranship
