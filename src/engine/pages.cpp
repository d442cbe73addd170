// Copies of lists of pages, which an engine makes of the parts that all copies have.
#include <algorithm>

#include "data/lowering.hpp"
#include "engine/checks.hpp"
#include "engine/engine.hpp"

namespace tranship {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// The part of an array that has one index along the first dimension.
Array page_of(const Array& array, std::int64_t page) {
  Array part = array;
  part.view.lower[0] += page;
  part.view.extents[0] = 1;
  return part;
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
  all.source.extents[0] = all.target.extents[0] = std::min<std::int64_t>(
      static_cast<std::int64_t>(source_pages.size()),
      std::min(source.view.extents[0] - source_pages[0], target.view.extents[0] - target_pages[0]));
  auto plan = plan_of(all);
  if (!plan) return plan.error();
  const Levels& from = source.view.mapping->fields()[0].dimension[0];
  const Levels& to = one->target.mapping->fields()[0].dimension[0];
  auto made = std::make_shared<Plan>(**plan);
  made->nests.clear();
  Corner origin{one->source.mapping.get(), one->source.lower};
  Corner place{one->target.mapping.get(), one->target.lower};
  origin.lower[0] = source.view.lower[0];
  place.lower[0] = target.view.lower[0];
  lower(origin, place, one->source.extents, made->hops[0].fields, made->nests);
  const bool in_one_launch =
      made->hops.size() == 1 && on_gpu(options_.profile.channels[at(made->hops[0].channel)].kind) &&
      from.count == 1 && to.count == 1 && made->nests.size() == 1 && made->nests[0].rank == 0;
  if (!in_one_launch) return copy_runs(source, target, source_pages, target_pages, options);
  made->bytes = made->nests[0].bytes() * static_cast<std::int64_t>(source_pages.size());
  auto leases = leases_of(source, target);
  if (!leases) return leases.error();
  return start_on_gpu(made, source, target, options, std::move(*leases),
                      {source_pages, target_pages, from.level[0].stride, to.level[0].stride});
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
