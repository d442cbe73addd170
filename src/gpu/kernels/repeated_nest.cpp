#include "gpu/kernels/repeated_nest.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "gpu/kernels/alike_nests.hpp"
#include "gpu/kernels/normal_nest.hpp"

namespace tranship::gpu {
namespace {

/// Fewest nests of one shape for which a table of their origins costs less than a launch for each.
constexpr std::size_t repeats_least = 4;
constexpr std::int64_t repeated_blocks_most = (std::int64_t{1} << 31) - 1;

/// Tuning of a plan of which so many are carried at once: together they keep a GPU busy.
KernelTuning tuning_of(const AlikeNests& alike, const KernelTuning& given) {
  const auto count = static_cast<std::int64_t>(alike.nests.size());
  KernelTuning tuning = given;
  tuning.list_bytes = count * alike.nests[0]->bytes();
  tuning.tiled_bytes = given.tiled_bytes / count;
  tuning.tile_blocks = std::max<std::int64_t>(given.tile_blocks / count, 1);
  return tuning;
}

bool passes_shared_memory(const KernelPlan& plan) {
  return plan.kind == KernelKind::box || plan.kind == KernelKind::tile ||
         plan.kind == KernelKind::table;
}

bool can_repeat(const KernelPlan& plan, std::size_t count) {
  return passes_shared_memory(plan) &&
         plan.blocks <= repeated_blocks_most / static_cast<std::int64_t>(count);
}

}  // namespace

Repeats repeats_of(const RepeatedNest& repeated, const NestOrigin* origins) {
  return {origins + repeated.first, repeated.count, make_divisor(repeated.plan.blocks)};
}

void plan_repeats(std::span<const LoopNest> nests, const std::byte* source, const std::byte* target,
                  std::vector<RepeatedNest>& repeated, std::vector<NestOrigin>& origins,
                  std::vector<LoopNest>& rest, const KernelTuning& tuning) {
  for (const AlikeNests& alike : group_by_shape(nests, source, target, rest)) {
    const std::size_t count = alike.nests.size();
    std::vector<KernelPlan> plans;
    if (count >= repeats_least) plans = alike.plan(tuning_of(alike, tuning));
    const bool well = !plans.empty() &&
                      std::all_of(plans.begin(), plans.end(),
                                  [&](const KernelPlan& plan) { return can_repeat(plan, count); });
    if (!well) {
      for (const LoopNest* nest : alike.nests) rest.push_back(*nest);
      continue;
    }
    for (const KernelPlan& plan : plans) {
      repeated.push_back({plan, origins.size(), static_cast<std::int64_t>(count)});
    }
    for (const LoopNest* nest : alike.nests) {
      origins.push_back({nest->source_offset, nest->target_offset});
    }
  }
}

}  // namespace tranship::gpu
