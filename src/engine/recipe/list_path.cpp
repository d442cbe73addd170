#include "engine/recipe/list_path.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include "base/at.hpp"
#include "engine/recipe/recipe_maker.hpp"

namespace tranship {
namespace {

/// Entries of one tile, so that channels which need plain nests keep few of them.
constexpr std::size_t tile_entries_max = 4096;
/// Tiles of a list in one hop that each thread of its channel gets, unless they are shorter than
/// `tile_bytes_least`.
constexpr int tiles_each = 4;
constexpr std::int64_t tile_bytes_least = 64 << 10;

/// Longest runs that go as RunList: a piece of a list is cut so that all get as many threads.
constexpr std::int64_t run_bytes_most = 64 << 10;
/// Fewest runs for which their form matters.
constexpr std::size_t run_count_least = 64;

}  // namespace

Result<ListPath> path_of_list(RecipeMaker& maker, const PlanQuery& query) {
  auto plan = maker.planner().plan_of(query);
  if (!plan) return plan.error();
  ListPath path{std::move(*plan), false, 0};
  const std::vector<Hop>& hops = path.plan->hops;
  if (hops.empty()) return path;  // nothing is to be moved
  if (hops.size() == 1) {
    path.one_launch = maker.channels().one_gpu_hop(*path.plan);
    if (path.one_launch || path.plan->direct) {
      path.tile_bytes = std::numeric_limits<std::int64_t>::max();
    } else {
      // The plan's tiles are those of one long run, which one thread copies at a stretch.
      const ChannelSpec& channel = maker.channels().spec_of(hops[0]);
      const std::int64_t share = path.plan->bytes / (tiles_each * std::max(channel.width, 1));
      path.tile_bytes =
          std::clamp(share, tile_bytes_least, std::max(path.plan->tile_bytes, tile_bytes_least));
    }
    return path;
  }
  path.tile_bytes = hops[0].target->end_bytes();
  for (const Hop& hop : std::span(hops).first(hops.size() - 1)) {
    path.tile_bytes = std::min(path.tile_bytes, hop.target->end_bytes());
  }
  return path;
}

bool goes_as_run_list(const ListPath& path, const RecipeUse& use, std::size_t count,
                      std::int64_t bytes_most) {
  return path.one_launch && !use.kept && count >= run_count_least && bytes_most > 0 &&
         bytes_most <= run_bytes_most;
}

void finish(const ListPath& path, IndexedCopy& lists) {
  if (path.one_launch) {
    lists.finish();
  } else {
    lists.finish(path.tile_bytes, tile_entries_max);
  }
}

}  // namespace tranship
