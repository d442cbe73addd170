#include "engine/copy_pages.hpp"

#include <algorithm>

#include "base/at.hpp"
#include "engine/checks.hpp"

namespace tranship {
namespace {

/// The part of an array that has one index along the first dimension.
Array page_of(const Array& array, std::int64_t page) {
  Array part = array;
  part.view.lower[0] += page;
  part.view.extents[0] = 1;
  return part;
}

/// Pages that one launch carries if they are not contiguous: each is planned by itself.
constexpr std::size_t launch_pages_max = 4096;

/// Page size in bytes from which each page is worth a copy of its own over several paths at once.
constexpr std::int64_t lanes_page_bytes = std::int64_t{8} << 20;

/// Returns pages that follow each other on both sides as one region each.
std::vector<CopyPair> runs_of(const Array& source, const Array& target, const PageLists& pages) {
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
  return runs;
}

}  // namespace

Result<ListPlan> plan_pages(CopyRunner& runner, Array source, Array target, const PageLists& pages,
                            const CopyOptions& options, IndexedCopy& copy) {
  if (Status s = check_pages(source, target, pages.source, pages.target); !s) return s.error();
  if (pages.source.empty()) {
    source.view.extents[0] = target.view.extents[0] = 0;
    return ListPlan{nullptr, {}, {{std::move(source), std::move(target)}}};
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
  auto path = path_of_list(runner, all);
  if (!path) return path.error();
  if (page_bytes == 0) return ListPlan{std::move(path->plan), {}, {}};
  // A page that is longer than a tile is a copy of its own, which goes in tiles.
  const bool as_list = path->plan->lanes.size() == 1 &&
                       (path->plan->direct || page_bytes <= path->tile_bytes) &&
                       one->target.mapping == target.view.mapping;
  if (!as_list) return ListPlan{nullptr, {}, runs_of(source, target, pages)};
  path->tile_bytes = std::max(path->tile_bytes, page_bytes);
  auto fields = match_fields(*all.source.mapping, *all.target.mapping);
  if (!fields) return fields.error();
  const Corner from{all.source.mapping.get(), all.source.lower};
  const Corner to{all.target.mapping.get(), all.target.lower};
  const bool fits = std::max(source.view.extents[0], target.view.extents[0]) <= run_place_most;
  if (fits && goes_as_run_list(*path, options, pages.source.size(), page_bytes)) {
    if (const auto runs = page_runs(from, to, one->source.extents, *fields, pages)) {
      return plan_run_list(*path, {std::move(source), std::move(target)}, *runs);
    }
  }
  const bool lowered = lower_pages(from, to, one->source.extents, *fields, pages,
                                   path->tile_bytes / page_bytes, copy);
  const bool launches =
      !path->one_launch || moves_runs(copy.nests()) || pages.source.size() <= launch_pages_max;
  if (!lowered || !launches) return ListPlan{nullptr, {}, runs_of(source, target, pages)};
  return plan_list(*path, {std::move(source), std::move(target)}, options, copy);
}

}  // namespace tranship
