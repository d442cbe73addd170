#include <algorithm>
#include <utility>

#include "base/at.hpp"
#include "data/page_lowering.hpp"
#include "engine/checks.hpp"
#include "engine/recipe/lent_lists.hpp"
#include "engine/recipe/recipes.hpp"

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

/// Copies runs of pages, each as a box of its own.
Result<Recipe> run_by_run(RecipeMaker& maker, const CopyPair& ends, const PageLists& pages,
                          const CopyOptions& options, RecipeUse use) {
  Recipe recipe;
  for (const CopyPair& run : runs_of(ends.source, ends.target, pages)) {
    auto step = maker.box_step(run, options, use);
    if (!step) return step.error();
    recipe.steps.push_back(std::move(*step));
  }
  return recipe;
}

/// The question for the path of all pages, and what one page is.
struct PagePlan {
  PlanQuery query;
  Point page_extents{};
  std::int64_t page_bytes = 0;
  bool in_order = false;  ///< The dimensions of both arrays have the same order.
};

Result<PagePlan> plan_of(RecipeMaker& maker, const CopyPair& ends, const PageLists& pages,
                         const CopyOptions& options, RecipeUse use) {
  const auto& [source, target] = ends;
  auto one = maker.planner().query_of(page_of(source, pages.source[0]),
                                      page_of(target, pages.target[0]), options, use.in_streams);
  if (!one) return one.error();
  PagePlan made{*one, one->source.extents, one->source.bytes(),
                one->target.mapping == target.view.mapping};
  // Planned as so many neighbouring pages.
  PlanQuery& all = made.query;
  const auto count = static_cast<std::int64_t>(pages.source.size());
  all.source.lower[0] = source.view.lower[0];
  all.target.lower[0] = target.view.lower[0];
  all.source.extents[0] = all.target.extents[0] =
      std::min({count, source.view.extents[0], target.view.extents[0]});
  if (made.page_bytes < lanes_page_bytes) all.lanes_max = 1;
  return made;
}

}  // namespace

Result<Recipe> pages_recipe(RecipeMaker& maker, const CopyPair& ends, const PageLists& pages,
                            const CopyOptions& options, RecipeUse use) {
  const auto& [source, target] = ends;
  if (Status s = check_pages(source, target, pages.source, pages.target); !s) return s.error();
  if (pages.source.empty()) {
    CopyPair none = ends;
    none.source.view.extents[0] = none.target.view.extents[0] = 0;
    auto step = maker.box_step(none, options, use);
    return step ? Recipe{{std::move(*step)}} : Result<Recipe>(step.error());
  }
  auto planned = plan_of(maker, ends, pages, options, use);
  if (!planned) return planned.error();
  const PlanQuery& all = planned->query;
  const std::int64_t page_bytes = planned->page_bytes;
  // Lists move bytes: what changes its type goes in boxes.
  auto fields = match_fields(*all.source.mapping, *all.target.mapping);
  if (!fields && options.casting != Casting::none) {
    return run_by_run(maker, ends, pages, options, use);
  }
  if (!fields) return fields.error();
  auto path = path_of_list(maker, all);
  if (!path) return path.error();
  // A page that is longer than a tile is a copy of its own, which goes in tiles.
  const bool as_list = page_bytes > 0 && path->plan->lanes.size() == 1 &&
                       (path->plan->direct || page_bytes <= path->tile_bytes) && planned->in_order;
  if (!as_list) return run_by_run(maker, ends, pages, options, use);
  path->tile_bytes = std::max(path->tile_bytes, page_bytes);
  const Corner from{all.source.mapping.get(), all.source.lower};
  const Corner to{all.target.mapping.get(), all.target.lower};
  const bool fits = std::max(source.view.extents[0], target.view.extents[0]) <= run_place_most;
  if (fits && goes_as_run_list(*path, use, pages.source.size(), page_bytes)) {
    if (const auto runs = page_runs(from, to, planned->page_extents, *fields, pages)) {
      return Recipe{{maker.runs_step(*path, ends, options, *runs)}};
    }
  }
  auto lists = lent_lists();
  const bool lowered = lower_pages(from, to, planned->page_extents, *fields, pages,
                                   path->tile_bytes / page_bytes, *lists);
  const bool launches =
      !path->one_launch || moves_runs(lists->nests()) || pages.source.size() <= launch_pages_max;
  if (!lowered || !launches) return run_by_run(maker, ends, pages, options, use);
  return Recipe{{maker.list_step(*path, ends, options, std::move(lists))}};
}

}  // namespace tranship
