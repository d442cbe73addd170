#include "engine/copy_lists.hpp"

#include <algorithm>
#include <limits>

#include "base/at.hpp"
#include "engine/copy_all.hpp"

namespace tranship {
namespace {

/// Entries of one tile, so that channels which need plain nests keep few of them.
constexpr std::size_t tile_entries_max = 4096;
/// Tiles of a list in one hop that each thread of its channel gets, unless they are shorter than
/// `tile_bytes_least`.
constexpr int tiles_each = 4;
constexpr std::int64_t tile_bytes_least = 64 << 10;
/// Fewest slots of a buffer between two hops: one is filled while the other is emptied.
constexpr int slots_least = 2;

/// Longest runs that go as RunList: a piece of a list is cut so that all get as many threads.
constexpr std::int64_t run_bytes_most = 64 << 10;
/// Fewest runs for which their form matters.
constexpr std::size_t run_count_least = 64;

/// Returns the plan of a path without its tiles and nests.
std::shared_ptr<Plan> plan_of_list(const ListPath& path, std::int64_t bytes, std::int64_t tiles) {
  auto made = std::make_shared<Plan>(*path.plan);
  made->nests.clear();
  made->bytes = bytes;
  made->tile_bytes = 0;  // tiles differ in size
  made->tiles = tiles;
  return made;
}

}  // namespace

Result<ListPath> path_of_list(CopyRunner& runner, const PlanQuery& query) {
  auto plan = runner.planner().plan_of(query);
  if (!plan) return plan.error();
  ListPath path{std::move(*plan), false, 0};
  const std::vector<Hop>& hops = path.plan->hops;
  if (hops.empty()) return path;  // nothing is to be moved
  if (hops.size() == 1) {
    path.one_launch = runner.one_gpu_hop(*path.plan);
    if (path.one_launch || path.plan->direct) {
      path.tile_bytes = std::numeric_limits<std::int64_t>::max();
    } else {
      // The plan's tiles are those of one long run, which one thread copies at a stretch.
      const ChannelSpec& channel = runner.profile().channels[at(hops[0].channel)];
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

ListPlan plan_list(const ListPath& path, CopyPair ends, const CopyOptions& options,
                   IndexedCopy& copy) {
  if (path.one_launch && options.after.empty()) {
    copy.finish();  // it starts now
  } else {
    copy.finish(path.tile_bytes, tile_entries_max);
  }
  auto made = plan_of_list(path, copy.bytes(), copy.tiles());
  if (made->hops.size() > 1) {
    made->direct = false;
    made->slots = std::max(made->slots, slots_least);
  }
  return {std::move(made), std::move(ends), {}};
}

bool goes_as_run_list(const ListPath& path, const CopyOptions& options, std::size_t count,
                      std::int64_t bytes_most) {
  return path.one_launch && options.after.empty() && !options.prepared &&
         count >= run_count_least && bytes_most > 0 && bytes_most <= run_bytes_most;
}

ListPlan plan_run_list(const ListPath& path, CopyPair ends, const RunList& runs) {
  return {plan_of_list(path, runs.bytes, 1), std::move(ends), {}, runs};
}

Result<Event> carry_list(CopyRunner& runner, const ListPlan& plan, const CopyOptions& options,
                         IndexedCopy& copy) {
  if (!plan.plan) return copy_each(runner, plan.runs, options);
  const auto& [source, target] = plan.ends;
  if (plan.plan->bytes == 0) return runner.carry_nothing(plan.plan, source, target, options);
  if (plan.run_list)
    return runner.carry(plan.plan, source, target, options, {.runs = &*plan.run_list});
  return runner.carry(plan.plan, source, target, options, {.indexed = &copy});
}

}  // namespace tranship
