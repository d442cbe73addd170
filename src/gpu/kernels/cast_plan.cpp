#include "gpu/kernels/cast_plan.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/at.hpp"
#include "gpu/kernels/cast_body.hpp"
#include "gpu/kernels/normal_nest.hpp"

namespace tranship::gpu {
namespace {

/// Most numbers of a box: four for each thread, four times.
constexpr std::int64_t box_numbers_max = 4096;
/// Most numbers of a box that passes through shared memory.
constexpr std::int64_t shared_numbers_max = 2048;
/// Least numbers of a box, and blocks from which on a large GPU is busy.
constexpr std::int64_t box_numbers_min = 1024;
constexpr std::int64_t cast_blocks_wanted = 264;
/// Distance of numbers in the source, in bytes, from which on each costs a sector of its own.
constexpr std::int64_t far_bytes = 32;
/// Most blocks of a launch, and most boxes along a loop that a Divisor divides.
constexpr std::int64_t blocks_max = std::int64_t{1} << 31;

/// Returns the nest's loops with the numbers of an element as the first.
NormalNest numbers_of(const LoopNest& nest) {
  NormalNest normal = normalise(nest);
  const std::int64_t target_bytes = nest.conversion.target_bytes();
  const std::int64_t run = nest.element_bytes / target_bytes;
  if (run > 1)
    normal.loops.insert(normal.loops.begin(), {run, nest.conversion.source_bytes(), target_bytes});
  return normal;
}

bool is_full(const CastPlan& plan, int loop) { return plan.box[loop] >= plan.loops[loop].extent; }

/// Returns the first loop, in one side's order, of which the box has not all; -1: it has all.
int next_loop(const CastPlan& plan, bool in_source) {
  for (int k = 0; k < plan.rank; ++k) {
    const int loop = in_source ? plan.in_source[k] : k;
    if (!is_full(plan, loop)) return loop;
  }
  return -1;
}

/// Grows the box to `most` numbers: along both sides' fastest loops in turn if it passes through
/// shared memory, else along the target's.
void grow_box(CastPlan& plan, std::int64_t most) {
  std::int64_t count = 1;
  for (bool in_source = false;; in_source = plan.shared && !in_source) {
    const int loop = next_loop(plan, in_source);
    if (loop < 0) break;
    const std::int64_t others = count / plan.box[loop];
    const std::int64_t wanted =
        std::min({std::int64_t{2} * plan.box[loop], plan.loops[loop].extent, most / others});
    if (wanted == plan.box[loop]) break;
    plan.box[loop] = static_cast<std::int32_t>(wanted);
    count = others * wanted;
  }
  plan.box_numbers = static_cast<std::int32_t>(count);
}

/// Whether groups of numbers along loop 0 can be read and written as vectors.
bool takes_vectors(const CastPlan& plan, const std::byte* source, const std::byte* target) {
  const std::int64_t from = plan.conversion.source_bytes();
  const std::int64_t to = plan.conversion.target_bytes();
  if (plan.shared || plan.rank == 0 || plan.loops[0].source_stride != from ||
      plan.loops[0].target_stride != to) {
    return false;
  }
  std::int64_t source_bits = address_bits(source, plan.source_offset);
  std::int64_t target_bits = address_bits(target, plan.target_offset);
  for (int k = 1; k < plan.rank; ++k) {
    source_bits |= std::abs(plan.loops[k].source_stride);
    target_bits |= plan.loops[k].target_stride;
  }
  if (plan.box[0] % cast_together != 0 && plan.box[0] < plan.loops[0].extent) return false;
  const auto fits = [](std::int64_t bits, std::int64_t bytes) {
    return lowest_bit(bits, vector_bytes_max) >= std::min(bytes * cast_together, vector_bytes_max);
  };
  return fits(source_bits, from) && fits(target_bits, to);
}

/// Completes a plan whose loops and offsets stand.
void finish(CastPlan& plan, const std::byte* source, const std::byte* target) {
  for (int k = 0; k < plan.rank; ++k) {
    plan.in_source[k] = k;
    plan.box[k] = 1;
  }
  std::stable_sort(plan.in_source, plan.in_source + plan.rank, [&](int a, int b) {
    return std::abs(plan.loops[a].source_stride) < std::abs(plan.loops[b].source_stride);
  });
  plan.shared =
      plan.rank > 1 && plan.in_source[0] != 0 && std::abs(plan.loops[0].source_stride) >= far_bytes;
  std::int64_t numbers = 1;
  for (int k = 0; k < plan.rank; ++k) numbers *= plan.loops[k].extent;
  const std::int64_t most = plan.shared ? shared_numbers_max : box_numbers_max;
  grow_box(plan, std::clamp(numbers / cast_blocks_wanted, box_numbers_min, most));
  plan.vectors = takes_vectors(plan, source, target);
  plan.blocks = 1;
  for (int k = 0; k < plan.rank; ++k) {
    const std::int64_t boxes = ceil_divide(plan.loops[k].extent, plan.box[k]);
    CHECK(boxes < blocks_max, "a loop has more boxes than a kernel counts");
    plan.boxes[k] = make_divisor(boxes);
    plan.blocks *= boxes;
  }
  if (plan.shared) {
    plan.shared_bytes =
        static_cast<std::int32_t>(shared_place(static_cast<std::uint32_t>(plan.box_numbers)) *
                                  static_cast<std::uint32_t>(plan.conversion.source_bytes()));
  }
}

/// Appends the plan of a nest's innermost loops, or one for each index of its outermost one.
void append(const Conversion& conversion, const NormalNest& normal, std::size_t loops,
            std::int64_t source_offset, std::int64_t target_offset, const std::byte* source,
            const std::byte* target, std::vector<CastPlan>& plans) {
  if (loops > kernel_loops_max) {
    const Loop& outer = normal.loops[loops - 1];
    for (std::int64_t k = 0; k < outer.extent; ++k) {
      append(conversion, normal, loops - 1, source_offset + k * outer.source_stride,
             target_offset + k * outer.target_stride, source, target, plans);
    }
    return;
  }
  CastPlan plan;
  plan.conversion = conversion;
  plan.source_offset = source_offset;
  plan.target_offset = target_offset;
  plan.rank = static_cast<std::int32_t>(loops);
  for (std::size_t k = 0; k < loops; ++k) plan.loops[k] = normal.loops[k];
  finish(plan, source, target);
  if (plan.blocks < blocks_max) {
    plans.push_back(plan);
    return;
  }
  // A launch has too many blocks: the outermost loop is cut in two.
  Loop& last = plan.loops[plan.rank - 1];
  NormalNest first = normal;
  NormalNest second = normal;
  const std::int64_t half = last.extent / 2;
  first.loops[loops - 1].extent = half;
  second.loops[loops - 1].extent = last.extent - half;
  append(conversion, first, loops, source_offset, target_offset, source, target, plans);
  append(conversion, second, loops, source_offset + half * last.source_stride,
         target_offset + half * last.target_stride, source, target, plans);
}

}  // namespace

void plan_casts(const LoopNest& nest, const std::byte* source, const std::byte* target,
                std::vector<CastPlan>& plans) {
  if (nest.bytes() == 0) return;
  const NormalNest normal = numbers_of(nest);
  append(nest.conversion, normal, normal.loops.size(), normal.source_offset, normal.target_offset,
         source, target, plans);
}

}  // namespace tranship::gpu
