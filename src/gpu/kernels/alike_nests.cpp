#include "gpu/kernels/alike_nests.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "gpu/kernels/normal_nest.hpp"

namespace tranship::gpu {
namespace {

/// Bits of an address that a plan depends on: those within four sectors.
constexpr std::int64_t alignment_bits = 127;

struct ByShape {
  bool operator()(const LoopNest* a, const LoopNest* b) const {
    if (a->element_bytes != b->element_bytes) return a->element_bytes < b->element_bytes;
    if (a->rank != b->rank) return a->rank < b->rank;
    const auto key = [](const Loop& loop) {
      return std::tie(loop.extent, loop.source_stride, loop.target_stride);
    };
    return std::lexicographical_compare(
        a->loops.begin(), a->loops.begin() + a->rank, b->loops.begin(), b->loops.begin() + b->rank,
        [&](const Loop& one, const Loop& other) { return key(one) < key(other); });
  }
};

bool same_shape(const LoopNest& a, const LoopNest& b) {
  return a.element_bytes == b.element_bytes && a.rank == b.rank &&
         std::equal(a.loops.begin(), a.loops.begin() + a.rank, b.loops.begin());
}

bool walks_backwards(const LoopNest& nest) {
  return std::any_of(nest.loops.begin(), nest.loops.begin() + nest.rank,
                     [](const Loop& loop) { return loop.target_stride < 0; });
}

}  // namespace

std::vector<KernelPlan> AlikeNests::plan(const KernelTuning& tuning) const {
  LoopNest any = *nests[0];
  any.source_offset = source_bits & alignment_bits;
  any.target_offset = target_bits & alignment_bits;
  std::vector<KernelPlan> plans;
  plan_kernels(any, nullptr, nullptr, plans, tuning);
  for (KernelPlan& plan : plans) {
    plan.source_offset -= any.source_offset;
    plan.target_offset -= any.target_offset;
    plan.source_low -= any.source_offset;
    plan.source_high -= any.source_offset;
    plan.tile.source_offset -= any.source_offset;
    plan.tile.target_offset -= any.target_offset;
    plan.tile.source_high -= any.source_offset;
  }
  return plans;
}

std::vector<AlikeNests> group_by_shape(std::span<const LoopNest> nests, const std::byte* source,
                                       const std::byte* target, std::vector<LoopNest>& rest) {
  std::map<const LoopNest*, AlikeNests, ByShape> shapes;
  auto last = shapes.end();
  for (const LoopNest& nest : nests) {
    if (nest.bytes() == 0) continue;
    if (walks_backwards(nest)) {
      rest.push_back(nest);
      continue;
    }
    const bool again = last != shapes.end() && same_shape(nest, *last->first);
    if (!again) last = shapes.try_emplace(&nest).first;
    last->second.nests.push_back(&nest);
    last->second.source_bits |= address_bits(source, nest.source_offset);
    last->second.target_bits |= address_bits(target, nest.target_offset);
  }
  std::vector<AlikeNests> groups;
  groups.reserve(shapes.size());
  for (auto& [nest, alike] : shapes) groups.push_back(std::move(alike));
  return groups;
}

}  // namespace tranship::gpu
