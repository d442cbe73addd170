#include "channels/cuda/kernels/nest_list.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "channels/cuda/kernels/kernel_body.hpp"
#include "channels/cuda/kernels/nest_work.hpp"

namespace tranship::cuda {
namespace {

constexpr std::int64_t blocks_most = (std::int64_t{1} << 31) - 1;
/// Bits of an address that decide which access is aligned.
constexpr std::int64_t alignment_bits = vector_bytes_max - 1;

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

/// The nests of one shape, and the bits of all the addresses at which they begin.
struct Alike {
  std::vector<const LoopNest*> nests;
  std::int64_t source_bits = 0;
  std::int64_t target_bits = 0;
  std::vector<KernelPlan> plans;

  /// Plans one that begins wherever they begin.
  void plan(const KernelTuning& tuning) {
    LoopNest any = *nests[0];
    any.source_offset = source_bits & alignment_bits;
    any.target_offset = target_bits & alignment_bits;
    plans.clear();
    plan_kernels(any, nullptr, nullptr, plans, tuning);
    for (KernelPlan& plan : plans) {
      plan.source_offset -= any.source_offset;
      plan.target_offset -= any.target_offset;
    }
  }

  /// Whether a list has kernels for it.
  bool listed() const {
    return std::all_of(plans.begin(), plans.end(), [](const KernelPlan& plan) {
      return plan.kind != KernelKind::box && plan.kind != KernelKind::records;
    });
  }

  std::int64_t blocks() const {
    std::int64_t sum = 0;
    for (const KernelPlan& plan : plans) sum += plan.blocks;
    return sum * static_cast<std::int64_t>(nests.size());
  }

  /// The narrowest access, or a whole vector.
  std::int32_t element_bytes() const {
    std::int32_t least = vector_bytes_max;
    for (const KernelPlan& plan : plans) {
      if (plan.kind != KernelKind::runs) least = std::min(least, plan.element_bytes);
    }
    return least;
  }
};

using Shapes = std::map<const LoopNest*, Alike, ByShape>;

Shapes shapes_of(std::span<const LoopNest> nests, const std::byte* source,
                 const std::byte* target) {
  Shapes shapes;
  auto last = shapes.end();
  for (const LoopNest& nest : nests) {
    if (nest.bytes() == 0) continue;
    const bool again = last != shapes.end() && same_shape(nest, *last->first);
    if (!again) last = shapes.try_emplace(&nest).first;
    last->second.nests.push_back(&nest);
    last->second.source_bits |= address_bits(source, nest.source_offset);
    last->second.target_bits |= address_bits(target, nest.target_offset);
  }
  return shapes;
}

void append(const Alike& alike, NestList& list) {
  const auto first = static_cast<std::int32_t>(list.nests.size());
  for (const LoopNest* nest : alike.nests) {
    list.nests.push_back({nest->source_offset, nest->target_offset});
  }
  for (const KernelPlan& plan : alike.plans) {
    NestGroup& group = list.groups.emplace_back();
    group.plan = plan;
    group.blocks = make_divisor(plan.blocks);
    group.first_block = static_cast<std::uint32_t>(list.blocks);
    group.first_nest = first;
    list.blocks += plan.blocks * static_cast<std::int64_t>(alike.nests.size());
    if (plan.box_rank > list.loops) list.loops = box_loops_max;
  }
}

}  // namespace

NestTable table_of(const NestList& list, const NestGroup* groups, const NestOffsets* nests) {
  return {groups,
          nests,
          static_cast<std::int32_t>(list.groups.size()),
          static_cast<std::int32_t>(list.nests.size()),
          list.element_bytes,
          list.loops,
          list.blocks};
}

void plan_list(std::span<const LoopNest> nests, const std::byte* source, const std::byte* target,
               NestList& list, std::vector<LoopNest>& rest) {
  list = {};
  Shapes shapes = shapes_of(nests, source, target);
  KernelTuning tuning;
  tuning.in_list = true;
  for (auto& [nest, alike] : shapes) {
    alike.plan(tuning);
    if (alike.listed()) list.element_bytes = std::min(list.element_bytes, alike.element_bytes());
  }
  tuning.element_bytes_max = list.element_bytes;
  for (auto& [nest, alike] : shapes) {
    if (alike.listed() && alike.element_bytes() != list.element_bytes) alike.plan(tuning);
    if (alike.listed() && list.blocks + alike.blocks() <= blocks_most) {
      append(alike, list);
    } else {
      for (const LoopNest* one : alike.nests) rest.push_back(*one);
    }
  }
}

}  // namespace tranship::cuda
