#include "gpu/kernels/box_plan.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/check.hpp"
#include "gpu/kernels/kernel_body.hpp"

namespace tranship::gpu {
namespace {

constexpr std::int64_t line_bytes = 128;

/// Returns the sort key of a loop in the source's order; a loop of stride 0 comes last.
std::uint64_t source_key(const Loop& loop) {
  return loop.source_stride == 0 ? ~std::uint64_t{0}
                                 : static_cast<std::uint64_t>(std::llabs(loop.source_stride));
}

struct BoxLimits {
  std::int64_t elements_wanted = 0;
  std::int64_t elements_max = 0;
  int loops_max = box_loops_max;
};

/// Chooses the extents of a box so that runs grow evenly on both sides.
class BoxShape {
 public:
  BoxShape(const std::vector<Loop>& loops, const BoxLimits& limits)
      : loops_(loops), extents_(loops.size(), 1), limits_(limits) {
    target_order_.resize(loops.size());
    for (std::size_t k = 0; k < loops.size(); ++k) target_order_[k] = k;
    source_order_ = source_order(loops);
  }

  const std::vector<std::int64_t>& extents() const { return extents_; }

  void grow_both() {
    for (bool grown = true; grown;) {
      const bool target_first = run(target_order_) <= run(source_order_);
      grown = grow(target_first ? target_order_ : source_order_) ||
              grow(target_first ? source_order_ : target_order_);
    }
  }

  void grow_target() {
    while (grow(target_order_)) {
    }
  }

  /// Extends the box where doubling has left room, then makes the boxes along a loop equally long.
  void balance(std::int64_t element_bytes) {
    for (std::size_t k = 0; k < extents_.size(); ++k) {
      std::int64_t& extent = extents_[k];
      if (extent == 1) continue;
      const std::int64_t room = limits_.elements_wanted / (elements() / extent);
      extent = std::min(room, loops_[k].extent);
      if (extent == loops_[k].extent) continue;
      const std::int64_t line = line_bytes / element_bytes;
      const std::int64_t vector = vector_bytes_max / element_bytes;
      const std::int64_t step = extent >= 4 * line ? line : extent >= 2 * vector ? vector : 1;
      extent = extent / step * step;
      const std::int64_t most = limits_.elements_max / (elements() / extent);
      const std::int64_t sector = std::max(step, 2 * vector);
      // Along other loops, larger boxes were measured to be slower than cut ones.
      if (loops_.size() == 2 && k == 1) {
        extent = even_extent(loops_[k].extent, extent, extent >= 2 * sector ? sector : step, most);
        continue;
      }
      const std::int64_t even =
          ceil_divide(loops_[k].extent, ceil_divide(loops_[k].extent, extent));
      extent = std::min(extent, ceil_divide(even, step) * step);
    }
  }

 private:
  std::int64_t elements() const {
    std::int64_t product = 1;
    for (const std::int64_t extent : extents_) product *= extent;
    return product;
  }

  /// Returns the number of elements that are contiguous on one side.
  std::int64_t run(const std::vector<std::size_t>& order) const {
    std::int64_t product = 1;
    for (const std::size_t k : order) {
      product *= extents_[k];
      if (extents_[k] < loops_[k].extent) break;
    }
    return product;
  }

  bool grow(const std::vector<std::size_t>& order) {
    for (const std::size_t k : order) {
      if (extents_[k] == loops_[k].extent) continue;
      const std::int64_t wider = std::min(2 * extents_[k], loops_[k].extent);
      const auto active =
          std::count_if(extents_.begin(), extents_.end(), [](std::int64_t e) { return e > 1; });
      if (extents_[k] == 1 && active == limits_.loops_max) return false;
      if (elements() / extents_[k] * wider > limits_.elements_wanted) return false;
      extents_[k] = wider;
      return true;
    }
    return false;
  }

  const std::vector<Loop>& loops_;
  std::vector<std::int64_t> extents_;
  BoxLimits limits_;
  std::vector<std::size_t> target_order_;
  std::vector<std::size_t> source_order_;
};

/// Sets the plan's loops: those of the box first, each group in the target's order.
void set_loops(const NormalNest& normal, const std::vector<std::int64_t>& extents,
               KernelPlan& plan) {
  plan.element_bytes = static_cast<std::int32_t>(normal.element_bytes);
  plan.source_vector_bytes = plan.element_bytes;
  plan.target_vector_bytes = plan.element_bytes;
  plan.source_offset = normal.source_offset;
  plan.target_offset = normal.target_offset;
  plan.blocks = 1;
  for (const bool in_box : {true, false}) {
    for (std::size_t k = 0; k < normal.loops.size(); ++k) {
      const bool counts_vectors = k == 0 && plan.kind == KernelKind::shifted;
      if ((extents[k] > 1 || counts_vectors) != in_box) continue;
      plan.loops[plan.rank] = normal.loops[k];
      plan.box[plan.rank] = static_cast<std::int32_t>(extents[k]);
      const std::int64_t boxes = ceil_divide(normal.loops[k].extent, extents[k]);
      plan.boxes[plan.rank] = make_divisor(boxes);
      plan.blocks *= boxes;
      CHECK(plan.blocks < (std::int64_t{1} << 31), "a kernel needs more blocks than a launch has");
      plan.box_elements *= plan.box[plan.rank];
      plan.box_rank += in_box ? 1 : 0;
      ++plan.rank;
    }
  }
}

void set_source_steps(KernelPlan& plan, const std::vector<std::size_t>& order) {
  SourceStep* last = nullptr;
  std::int64_t extent = 1;
  std::int32_t elements = 1;
  for (const std::size_t k : order) {
    const Loop& loop = plan.loops[k];
    plan.target_steps[k].shared_stride = elements;
    elements *= plan.box[k];
    const bool whole = last != nullptr && plan.box[last->cut] == plan.loops[last->cut].extent;
    if (whole && loop.source_stride == extent * last->stride) {
      last->cut = static_cast<std::int32_t>(k);
      last->factor = static_cast<std::int32_t>(extent);
      extent *= plan.box[k];
    } else {
      last = &plan.source_steps[plan.source_rank++];
      last->stride = loop.source_stride;
      last->cut = static_cast<std::int32_t>(k);
      extent = plan.box[k];
    }
    last->extent = make_divisor(extent);
  }
}

void set_target_steps(KernelPlan& plan) {
  for (int k = 0; k < plan.box_rank; ++k) {
    TargetStep& step = plan.target_steps[k];
    step.extent = make_divisor(plan.box[k]);
    if (k + 1 < plan.box_rank) {
      step.shared_carry = plan.target_steps[k + 1].shared_stride - plan.box[k] * step.shared_stride;
    }
  }
}

/// Returns the or-ed byte distances between boxes' first addresses on one side, whose lowest bit is
/// their alignment.
std::int64_t block_bits(const KernelPlan& plan, bool source) {
  std::int64_t bits = 0;
  for (int k = 0; k < plan.rank; ++k) {
    if (plan.boxes[k].divisor == 1) continue;
    const Loop& loop = plan.loops[k];
    bits |= plan.box[k] * (source ? loop.source_stride : loop.target_stride);
  }
  return bits;
}

/// Returns the widest vector with a kernel: there are kernels for one element, 4 bytes and 16
/// bytes.
std::int32_t kernel_vector(std::int64_t bytes, std::int32_t element_bytes) {
  if (bytes >= vector_bytes_max) return vector_bytes_max;
  return bytes >= 4 ? std::max(4, element_bytes) : element_bytes;
}

void set_source_vector(KernelPlan& plan, const std::byte* source) {
  if (plan.source_steps[0].stride != plan.element_bytes) return;
  std::int64_t bits = address_bits(source, plan.source_offset) | block_bits(plan, true);
  bits |= std::int64_t{plan.source_steps[0].extent.divisor} * plan.element_bytes;
  for (int k = 1; k < plan.source_rank; ++k) bits |= plan.source_steps[k].stride;
  plan.source_vector_bytes = kernel_vector(common_bytes(bits), plan.element_bytes);
}

void set_target_vector(KernelPlan& plan, const std::byte* target) {
  if (plan.loops[0].target_stride != plan.element_bytes) return;
  std::int64_t bits = address_bits(target, plan.target_offset) | block_bits(plan, false);
  std::int64_t run = std::int64_t{plan.box[0]} * plan.element_bytes;
  int merged = 1;
  for (; merged < plan.box_rank; ++merged) {
    const bool whole = plan.box[merged - 1] == plan.loops[merged - 1].extent;
    if (!whole || plan.loops[merged].target_stride != run) break;
    run *= plan.box[merged];
  }
  bits |= run;
  for (int k = merged; k < plan.box_rank; ++k) bits |= plan.loops[k].target_stride;
  plan.target_vector_bytes = kernel_vector(common_bytes(bits), plan.element_bytes);
  plan.straddles = plan.box[0] * plan.element_bytes % plan.target_vector_bytes != 0;
}

/// Sets the step between the elements of a target vector in shared memory. Vectors that begin at
/// multiples of their reach in shared memory cross either no gap, or one for each 128 bytes: then
/// their elements are equally spaced.
void set_shared_step(KernelPlan& plan) {
  if (plan.straddles) return;
  const std::int32_t stride = plan.target_steps[0].shared_stride * plan.element_bytes;
  const std::int32_t reach = stride * (plan.target_vector_bytes / plan.element_bytes);
  const std::int32_t second = 1 << second_gap_log2(plan.element_bytes);
  const auto gap = static_cast<std::int32_t>(gap_bytes(plan.element_bytes));
  constexpr auto line = static_cast<std::int32_t>(line_bytes);
  if (line % reach == 0) plan.shared_step = stride;
  if (stride % line == 0 && second % reach == 0) plan.shared_step = stride + stride / line * gap;
}

/// Keeps neighbouring blocks within a part of the fastest loop, by splitting its boxes into two
/// loops.
void group_blocks(KernelPlan& plan, std::int64_t group) {
  Loop& loop = plan.loops[0];
  const std::int64_t boxes = plan.boxes[0].divisor;
  const bool divides = boxes * plan.box[0] == loop.extent && group > 1 && boxes % group == 0;
  if (!divides || boxes == group || plan.rank == kernel_loops_max) return;
  const std::int64_t step = group * plan.box[0];
  plan.loops[plan.rank] = {boxes / group, step * loop.source_stride, step * loop.target_stride};
  plan.box[plan.rank] = 1;
  plan.boxes[plan.rank] = make_divisor(boxes / group);
  ++plan.rank;
  loop.extent = step;
  plan.boxes[0] = make_divisor(group);
}

/// Smallest number of blocks for which larger boxes are better than more blocks.
constexpr std::int64_t blocks_wanted = 4096;

/// Returns `box_bytes`, or less if there would be too few boxes, but no less than `least`.
std::int64_t short_box(std::int64_t bytes, std::int64_t box_bytes, std::int64_t least,
                       const KernelTuning& tuning) {
  return std::min(box_bytes,
                  std::max(least, bytes / std::max<std::int64_t>(tuning.short_blocks, 1)));
}

BoxLimits limits_of(const NormalNest& normal, const BoxWay& way) {
  const KernelTuning& tuning = way.tuning;
  const std::int64_t bytes = std::max(normal_bytes(normal), tuning.list_bytes);
  if (!way.direct) {
    CHECK(tuning.box_bytes <= box_bytes_max, "a box is larger than the kernels can index");
    const std::int64_t wanted = short_box(bytes, tuning.box_bytes, tuning.short_box_bytes, tuning);
    return {wanted / normal.element_bytes, box_bytes_max / normal.element_bytes};
  }
  const std::int64_t accesses = kernel_threads * normal.element_bytes;
  const std::int64_t least =
      short_box(bytes, std::min(tuning.box_bytes, tuning.direct_box_bytes), accesses, tuning);
  const std::int64_t box_bytes = std::clamp(bytes / blocks_wanted, least, tuning.direct_box_bytes);
  const std::int64_t rows = way.kind == KernelKind::shifted
                                ? std::min<std::int64_t>(tuning.shifted_rows, box_rows_max)
                                : box_rows_max;
  const std::int64_t most = rows * normal.loops[0].extent;
  return {std::min(box_bytes / normal.element_bytes, most), most, kernel_loops_max};
}

}  // namespace

std::vector<std::size_t> source_order(const std::vector<Loop>& loops) {
  std::vector<std::size_t> order(loops.size());
  for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return source_key(loops[a]) < source_key(loops[b]);
  });
  return order;
}

KernelPlan plan_box(const NormalNest& normal, const std::byte* source, const std::byte* target,
                    const BoxWay& way) {
  KernelPlan plan;
  plan.kind = way.kind;
  const bool direct = way.direct;
  BoxShape shape(normal.loops, limits_of(normal, way));
  if (direct) {
    shape.grow_target();
  } else {
    shape.grow_both();
  }
  shape.balance(normal.element_bytes);
  set_loops(normal, shape.extents(), plan);
  if (direct) {
    set_target_steps(plan);
    plan.rows = plan.box_elements / plan.box[0];
    CHECK(plan.rows <= box_rows_max, "a box has more rows than fit");
    if (plan.box_rank > 1) plan.inner_rows = plan.rows / plan.box[plan.box_rank - 1];
    return plan;
  }
  const std::vector<Loop> loops(plan.loops, plan.loops + plan.box_rank);
  set_source_steps(plan, source_order(loops));
  set_target_steps(plan);
  group_blocks(plan, way.tuning.group_boxes);
  set_source_vector(plan, source);
  set_target_vector(plan, target);
  set_shared_step(plan);
  const std::uint32_t last = static_cast<std::uint32_t>(plan.box_elements * plan.element_bytes);
  plan.shared_bytes = static_cast<std::int32_t>(shared_size(last, plan.element_bytes));
  return plan;
}

}  // namespace tranship::gpu
