#include "engine/recipe/recipe_maker.hpp"

#include <algorithm>
#include <utility>

#include "base/at.hpp"
#include "data/lowering.hpp"
#include "engine/checks.hpp"
#include "engine/recipe/recipes.hpp"

namespace tranship {
namespace {

/// Size in bytes from which the work of one box on a GPU is not planned ahead: it takes longer than
/// its plan.
constexpr std::int64_t short_bytes = std::int64_t{1} << 20;

/// Largest table, in bytes, that a work which is planned ahead without a wait may keep of a list
/// before it.
constexpr std::int64_t kept_table_bytes_most = 128 << 10;

/// A target up to this many times the size of the caches is written through them if the source is a
/// broadcast array, whose few bytes leave the caches to the target (two cores of an EPYC with 8 MiB
/// of cache, through the caches and past them: 16 MiB at 32 and 25 GB/s, 64 MiB at 6 and 26).
constexpr std::int64_t repeated_caches = 4;

/// A copy on a busy machine is planned anew if it takes this many times as long as planning.
constexpr double busy_planning_share = 20;

/// Whether another path was found than the one that the plan takes.
bool has_other_ways(const Plan& plan) {
  std::vector<int> memories{plan.hops.empty() ? -1 : plan.hops[0].source_memory};
  for (const Hop& hop : plan.hops) memories.push_back(hop.target_memory);
  return std::any_of(plan.alternatives.begin(), plan.alternatives.end(),
                     [&](const Alternative& other) { return other.memories != memories; });
}

/// Whether the source holds some elements once for several of the target.
bool is_repeated(const View& source) {
  const Placement& field = source.mapping->fields()[0];
  for (int k = 0; k < source.mapping->rank(); ++k) {
    const Levels& levels = field.dimension[at(k)];
    if (source.extents[at(k)] > 1 && levels.count == 1 && levels.level[0].stride == 0) return true;
  }
  return false;
}

std::shared_ptr<const BounceNests> bounce_nests_of(const Plan& plan) {
  const Hop& first = plan.hops[0];
  const Hop& last = plan.hops[1];
  auto nests = std::make_shared<BounceNests>();
  lower({first.source.get(), plan.corner_source}, {first.target.get(), {}}, plan.extents,
        first.fields, nests->to_buffer, first.numbers());
  lower({last.source.get(), {}}, {last.target.get(), plan.corner_target}, plan.extents, last.fields,
        nests->from_buffer, last.numbers());
  return nests;
}

/// Returns the plan of a path without its tiles and nests.
std::shared_ptr<const Plan> plan_of_list(const ListPath& path, std::int64_t bytes,
                                         std::int64_t tiles) {
  constexpr int slots_least = 2;  // one slot of a buffer is filled while the other is emptied
  auto made = std::make_shared<Plan>(*path.plan);
  made->nests.clear();
  made->bytes = bytes;
  made->tile_bytes = 0;  // tiles differ in size
  made->tiles = tiles;
  if (made->hops.size() > 1) {
    made->direct = false;
    made->slots = std::max(made->slots, slots_least);
  }
  return made;
}

}  // namespace

std::int64_t Recipe::bytes() const {
  std::int64_t bytes = 0;
  for (const RecipeStep& step : steps) bytes += step.plan->bytes;
  return bytes;
}

Result<Recipe> RecipeMaker::make(const CopyRequest& request, RecipeUse use) {
  const CopyOptions& options = request.options;
  if (const auto* pages = std::get_if<PageLists>(&request.parts)) {
    return pages_recipe(*this, request.pairs[0], *pages, options, use);
  }
  if (const auto* pieces = std::get_if<PieceLists>(&request.parts)) {
    return pieces_recipe(*this, request.pairs[0], *pieces, options, use);
  }
  if (const auto* blocks = std::get_if<Blocks>(&request.parts)) {
    return blocks_recipe(*this, request.pairs[0], *blocks, options);
  }
  if (const auto* types = std::get_if<std::span<const TypePair>>(&request.parts)) {
    return types_recipe(*this, request.pairs, *types, options, use);
  }
  return pairs_recipe(*this, request.pairs, options, use);
}

bool RecipeMaker::is_cold(const Plan& plan, const CopyOptions& options) const {
  return 2 * std::max(plan.bytes, options.together_bytes) > profile().cache_bytes;
}

Carrier RecipeMaker::carrier_for(const Plan& plan, const CopyPair& ends, bool lists) const {
  if (plan.bytes == 0) return Carrier::nothing;
  if (channels_.one_gpu_hop(plan)) return Carrier::gpu_stream;
  if (!plan.direct) return Carrier::transfer;
  if (plan.hops.size() > 1) return Carrier::bounce;
  if (within_memory(ends.source, ends.target)) return Carrier::here;
  return lists ? Carrier::transfer : Carrier::peer;
}

RecipeStep RecipeMaker::step_of(std::shared_ptr<const Plan> plan, const CopyPair& ends,
                                const CopyOptions& options, bool lists) const {
  RecipeStep step;
  step.carrier = carrier_for(*plan, ends, lists);
  step.priority = options.priority;
  // A broadcast array is quicker through the caches, although as many bytes that are all read
  // would not be.
  const bool fills_caches = !lists && plan->bytes <= repeated_caches * profile().cache_bytes;
  step.past_caches = is_cold(*plan, options) && !(fills_caches && is_repeated(ends.source.view));
  if (step.carrier == Carrier::bounce) step.bounce = bounce_nests_of(*plan);
  step.plan = std::move(plan);
  return step;
}

Result<RecipeStep> RecipeMaker::box_step(const CopyPair& pair, const CopyOptions& options,
                                         RecipeUse use) {
  const auto& [source, target] = pair;
  // Marked before it is planned: of two processes whose copies begin together, at least one sees
  // the other's mark.
  if (links_ != nullptr && use.starts_now) {
    if (const auto link = link_of(source, target, source.view.bytes())) links_->mark(*link, 0);
  }
  auto query = planner_.query_of(source, target, options, use.in_streams);
  if (!query) return query.error();
  if (Status s = check_overlap(source, target, query->target); !s) return s.error();
  auto plan = planner_.plan_of(*query);
  if (!plan) return plan.error();
  const bool worth_planning = (*plan)->seconds > busy_planning_share * profile().planning_s;
  if (use.starts_now && !(*plan)->direct && worth_planning && has_other_ways(**plan)) {
    query->waiting_s = channels_.waiting_s(options.priority);
    if (!query->waiting_s.empty()) plan = planner_.plan_of(*query);
    if (!plan) return plan.error();
  }
  return step_of(std::move(*plan), pair, options, false);
}

RecipeStep RecipeMaker::list_step(const ListPath& path, const CopyPair& ends,
                                  const CopyOptions& options,
                                  std::shared_ptr<IndexedCopy> lists) const {
  finish(path, *lists);
  RecipeStep step =
      step_of(plan_of_list(path, lists->bytes(), lists->tiles()), ends, options, true);
  step.lists = std::move(lists);
  return step;
}

RecipeStep RecipeMaker::runs_step(const ListPath& path, const CopyPair& ends,
                                  const CopyOptions& options, const RunList& runs) const {
  RecipeStep step = step_of(plan_of_list(path, runs.bytes, 1), ends, options, true);
  step.runs = runs;
  return step;
}

Result<std::shared_ptr<const Plan>> RecipeMaker::plan(const CopyPair& pair,
                                                      const CopyOptions& options) {
  auto query =
      planner_.query_of(pair.source, pair.target, options, options.start.stream.has_value());
  if (!query) return query.error();
  if (Status s = check_overlap(pair.source, pair.target, query->target); !s) return s.error();
  query->waiting_s = channels_.waiting_s(options.priority);
  return planner_.plan_of(*query);
}

Status RecipeMaker::make_ready(Recipe& recipe, std::span<const CopyPair> pairs, bool waits) const {
  for (RecipeStep& step : recipe.steps) {
    if (Status status = make_ready(step, pairs[step.base], waits); !status) return status;
  }
  return {};
}

Status RecipeMaker::make_ready(RecipeStep& step, const CopyPair& ends, bool waits) const {
  if (step.lists && step.carrier == Carrier::here) {
    step.program = std::make_shared<const HostProgram>(step.lists->nests());
  }
  if (step.carrier != Carrier::gpu_stream) return {};
  GpuChannel& channel = channels_.gpu_channel(*step.plan, ends.source, ends.target);
  const Request request = channels_.request_of(step, ends.source, ends.target);
  if (waits) {
    auto work = channel.prepare(request);
    if (!work) return work.error();
    step.work = std::move(*work);
    return {};
  }
  if (!step.lists) {
    if (step.plan->bytes < short_bytes) step.work = channel.plan(request);
    if (step.work || step.plan->bytes > short_bytes) return {};
  }
  auto begun = channel.begin_prepare(request, kept_table_bytes_most);
  if (!begun) return begun.error();
  step.work = std::move(begun->work);
  step.ready = std::move(begun->ready);
  return {};
}

}  // namespace tranship
