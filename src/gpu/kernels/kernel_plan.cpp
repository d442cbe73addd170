#include "gpu/kernels/kernel_plan.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "base/check.hpp"
#include "gpu/kernels/kernel_body.hpp"
#include "gpu/kernels/normal_nest.hpp"
#include "gpu/kernels/records_body.hpp"
#include "gpu/kernels/records_plan.hpp"
#include "gpu/kernels/table_tile_plan.hpp"
#include "gpu/kernels/tile_plan.hpp"

namespace tranship::gpu {
namespace {

/// Largest box, in bytes: an index within a box has 16 bits in the kernels.
constexpr std::int64_t box_bytes_max = 32768;
/// Shortest run, in bytes, that needs no shared memory if both sides have such runs.
constexpr std::int64_t long_run_bytes = 128;
constexpr std::int64_t row_bytes_min = 32;
constexpr std::int64_t line_bytes = 128;

std::int64_t normal_bytes(const NormalNest& normal) {
  std::int64_t bytes = normal.element_bytes;
  for (const Loop& loop : normal.loops) bytes *= loop.extent;
  return bytes;
}

/// Joins loops that continue each other on both sides, and the first ones with the element.
void join(NormalNest& normal) {
  std::vector<Loop> joined;
  for (const Loop& loop : normal.loops) {
    if (joined.empty() && loop.source_stride == normal.element_bytes &&
        loop.target_stride == normal.element_bytes) {
      normal.element_bytes *= loop.extent;
      continue;
    }
    if (!joined.empty() &&
        loop.source_stride == joined.back().extent * joined.back().source_stride &&
        loop.target_stride == joined.back().extent * joined.back().target_stride) {
      joined.back().extent *= loop.extent;
      continue;
    }
    joined.push_back(loop);
  }
  normal.loops = std::move(joined);
}

/// Divides elements into units that one access moves, which become an innermost loop.
void cut_elements(NormalNest& normal, const std::byte* source, const std::byte* target,
                  std::int64_t bytes_max) {
  std::int64_t bits = normal.element_bytes | address_bits(source, normal.source_offset) |
                      address_bits(target, normal.target_offset);
  for (const Loop& loop : normal.loops) bits |= loop.source_stride | loop.target_stride;
  const std::int64_t unit = std::min(common_bytes(bits), bytes_max);
  const std::int64_t units = normal.element_bytes / unit;
  if (units > 1 || normal.loops.empty()) {
    normal.loops.insert(normal.loops.begin(), Loop{units, unit, unit});
  }
  normal.element_bytes = unit;
}

/// Returns the sort key of a loop in the source's order; a loop of stride 0 comes last.
std::uint64_t source_key(const Loop& loop) {
  return loop.source_stride == 0 ? ~std::uint64_t{0}
                                 : static_cast<std::uint64_t>(std::llabs(loop.source_stride));
}

/// Returns the loops' numbers, fastest in the source first.
std::vector<std::size_t> source_order(const std::vector<Loop>& loops) {
  std::vector<std::size_t> order(loops.size());
  for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return source_key(loops[a]) < source_key(loops[b]);
  });
  return order;
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

/// Returns whether both sides walk memory in the same order: then a box gains nothing.
bool same_order(const std::vector<Loop>& loops) {
  const std::vector<std::size_t> order = source_order(loops);
  std::size_t moving = 0;
  while (moving < loops.size() && loops[order[moving]].source_stride != 0) ++moving;
  return std::is_sorted(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(moving));
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

/// How a nest is carried.
struct Way {
  bool direct = false;
  KernelKind kind = KernelKind::box;
  KernelTuning tuning;
};

/// Smallest number of blocks for which larger boxes are better than more blocks.
constexpr std::int64_t blocks_wanted = 4096;

/// Returns `box_bytes`, or less if there would be too few boxes, but no less than `least`.
std::int64_t short_box(std::int64_t bytes, std::int64_t box_bytes, std::int64_t least,
                       const KernelTuning& tuning) {
  return std::min(box_bytes,
                  std::max(least, bytes / std::max<std::int64_t>(tuning.short_blocks, 1)));
}

BoxLimits limits_of(const NormalNest& normal, const Way& way) {
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

KernelPlan make_plan(const NormalNest& normal, const std::byte* source, const std::byte* target,
                     const Way& way) {
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

/// Returns the runs of a nest as whole vectors of the target: as many as a run can have at most.
NormalNest in_vectors(const NormalNest& runs) {
  NormalNest normal = runs;
  normal.element_bytes = vector_bytes_max;
  const std::int64_t vectors = std::max<std::int64_t>(1, runs.element_bytes / vector_bytes_max);
  normal.loops.insert(normal.loops.begin(), Loop{vectors, vector_bytes_max, vector_bytes_max});
  return normal;
}

/// Completes the plans of in_vectors().
void set_runs(const NormalNest& runs, std::span<KernelPlan> plans) {
  for (KernelPlan& plan : plans) {
    plan.run_bytes = runs.element_bytes;
    plan.source_low = runs.source_offset;
    plan.source_high = runs.source_offset + runs.element_bytes;
    for (const Loop& loop : runs.loops) {
      const std::int64_t reach = (loop.extent - 1) * loop.source_stride;
      (reach < 0 ? plan.source_low : plan.source_high) += reach;
    }
  }
}

/// Returns whether runs are faster in shifted vectors than in aligned units.
bool better_shifted(const NormalNest& runs, const NormalNest& units, const KernelTuning& tuning) {
  constexpr std::int64_t wide_bytes = 8;
  constexpr std::int64_t more_each = 32;
  const bool short_list =
      tuning.in_list && tuning.list_bytes <= tuning.short_list_accesses * units.element_bytes;
  return !short_list && units.element_bytes < wide_bytes &&
         runs.element_bytes >= tuning.shifted_run_bytes + more_each * units.element_bytes;
}

bool in_wide_accesses(const KernelPlan& plan) {
  return plan.source_vector_bytes >= vector_bytes_max &&
         plan.target_vector_bytes >= vector_bytes_max;
}

/// Widest access, in bytes, that is so narrow that most of the time goes to accesses.
constexpr std::int64_t narrow_bytes = 2;

/// Shortest target run, in bytes, that fills enough of the vectors of a tile.
constexpr std::int64_t tile_run_least = 80;

/// Shortest misaligned run, in bytes, of which most vectors are whole.
constexpr std::int64_t shifted_run_least = 192;

/// Shortest source run, in bytes, for which the tile reads it alone: table tiles join shorter ones.
constexpr std::int64_t tile_source_run_least = 16;

/// Returns whether a plain tile is faster than a table tile: runs are long enough, and neither
/// joined nor of elements of three units, which a table tile takes as they come.
bool better_as_tile(const TilePlan& tile) {
  if (tile.kind == TileKind::joined || (tile.kind == TileKind::elements && tile.parts.divisor == 3))
    return false;
  return std::int64_t{tile.count_p} * tile.element_bytes >= tile_run_least &&
         tile.count_q * tile.step_q >= tile_source_run_least;
}

/// Appends one plan that carries the nest faster than a box. Returns false, with nothing appended,
/// if there is none.
bool plan_instead(const NormalNest& whole, const KernelPlan& box, const std::byte* source,
                  const std::byte* target, const KernelTuning& tuning,
                  std::vector<KernelPlan>& plans) {
  const std::span one(&whole, 1);
  if (tuning.tiles == 0) return false;
  if (tuning.tiles == 2) return plan_tile(whole, source, target, tuning, plans);
  if (tuning.tiles == 3) return plan_table_tile(one, source, target, tuning, plans);
  if (normal_bytes(whole) < tuning.tiled_bytes) return false;
  // Elements that must be moved byte by byte gain nothing from wide accesses on the way.
  const bool bytes_alone = box.element_bytes == 1 && whole.element_bytes > 1;
  if (in_wide_accesses(box) && !bytes_alone) return false;
  std::vector<KernelPlan> tiles;
  if (plan_tile(whole, source, target, tuning, tiles) && better_as_tile(tiles[0].tile)) {
    plans.push_back(tiles[0]);
    return true;
  }
  return plan_table_tile(one, source, target, tuning, plans);
}

/// Plans a nest that may have too many loops: of its slower loops, the shortest are walked here.
void plan_normal(const NormalNest& normal, const std::byte* source, const std::byte* target,
                 const Way& way, std::vector<KernelPlan>& plans) {
  if (normal.loops.size() <= kernel_loops_max) {
    plans.push_back(make_plan(normal, source, target, way));
    return;
  }
  const std::size_t fastest = source_order(normal.loops)[0];
  std::size_t outer = 0;
  for (std::size_t k = 1; k < normal.loops.size(); ++k) {
    if (k == fastest) continue;
    if (outer == 0 || normal.loops[k].extent < normal.loops[outer].extent) outer = k;
  }
  NormalNest inner = normal;
  inner.loops.erase(inner.loops.begin() + static_cast<std::ptrdiff_t>(outer));
  for (std::int64_t index = 0; index < normal.loops[outer].extent; ++index) {
    inner.source_offset = normal.source_offset + index * normal.loops[outer].source_stride;
    inner.target_offset = normal.target_offset + index * normal.loops[outer].target_stride;
    plan_normal(inner, source, target, way, plans);
  }
}

}  // namespace

void plan_kernels(const LoopNest& nest, const std::byte* source, const std::byte* target,
                  std::vector<KernelPlan>& plans, const KernelTuning& tuning) {
  if (nest.bytes() == 0) return;
  NormalNest normal = normalise(nest);
  join(normal);
  const NormalNest whole = normal;
  cut_elements(normal, source, target, tuning.element_bytes_max);
  const bool direct = whole.element_bytes >= long_run_bytes || same_order(normal.loops);
  const KernelKind direct_kind =
      whole.element_bytes >= row_bytes_min ? KernelKind::rows : KernelKind::elements;
  const Way way{direct, direct ? direct_kind : KernelKind::box, tuning};
  const bool short_runs =
      whole.element_bytes < shifted_run_least || direct_kind == KernelKind::elements;
  if (direct && !tuning.in_list && tuning.tiles != 0 && short_runs &&
      normal_bytes(whole) >= tuning.tiled_bytes && normal.element_bytes <= narrow_bytes &&
      !normal.loops.empty() &&
      plan_table_tile(std::span(&whole, 1), source, target, tuning, plans)) {
    return;
  }
  const std::size_t before = plans.size();
  if (direct && better_shifted(whole, normal, tuning)) {
    plan_normal(in_vectors(whole), source, target, {true, KernelKind::shifted, tuning}, plans);
    return set_runs(whole, std::span(plans).subspan(before));
  }
  plan_normal(normal, source, target, way, plans);
  if (direct || tuning.in_list || plans.size() != before + 1) return;
  const KernelPlan box = plans.back();
  plans.pop_back();
  if (!plan_instead(whole, box, source, target, tuning, plans)) plans.push_back(box);
}

namespace {

/// Returns whether the nests begin as close together as the fields of a record that fits a box.
bool near_on_one_side(std::span<const LoopNest> nests) {
  const auto spread = [&](auto offset) {
    const auto [low, high] = std::minmax_element(
        nests.begin(), nests.end(),
        [&](const LoopNest& a, const LoopNest& b) { return a.*offset < b.*offset; });
    return (*high).*offset - (*low).*offset;
  };
  return nests.size() > 1 && std::min(spread(&LoopNest::source_offset),
                                      spread(&LoopNest::target_offset)) < box_bytes_max;
}

}  // namespace

bool plan_fields(std::span<const LoopNest> nests, const std::byte* source, const std::byte* target,
                 std::vector<KernelPlan>& plans, const KernelTuning& tuning) {
  if (!near_on_one_side(nests)) return false;
  std::vector<NormalNest> normals;
  for (const LoopNest& nest : nests) {
    if (nest.bytes() != 0) normals.push_back(normalise(nest));
  }
  return normals.size() > 1 && (plan_records(normals, source, target, tuning, plans) ||
                                plan_table_tile(normals, source, target, tuning, plans));
}

void plan_kernels(std::span<const LoopNest> nests, const std::byte* source, const std::byte* target,
                  std::vector<KernelPlan>& plans, const KernelTuning& tuning) {
  if (plan_fields(nests, source, target, plans, tuning)) return;
  for (const LoopNest& nest : nests) plan_kernels(nest, source, target, plans, tuning);
}

std::string explain(const KernelPlan& plan) {
  const std::string element = std::to_string(plan.element_bytes) + "-byte";
  if (plan.kind == KernelKind::rows) {
    const std::int64_t bytes = plan.loops[0].extent * plan.element_bytes;
    return "rows of " + std::to_string(plan.loops[0].extent == 1 ? plan.element_bytes : bytes) +
           " bytes in " + element + " accesses, " + std::to_string(plan.blocks) + " blocks";
  }
  if (plan.kind == KernelKind::records) return explain_records(plan);
  if (plan.kind == KernelKind::tile) return explain_tile(plan);
  if (plan.kind == KernelKind::table) return explain_table_tile(plan);
  if (plan.kind == KernelKind::shifted) {
    return "runs of " + std::to_string(plan.run_bytes) + " bytes, shifted, " +
           std::to_string(plan.blocks) + " blocks";
  }
  if (plan.kind == KernelKind::elements) {
    return "single elements in " + element + " accesses, " + std::to_string(plan.blocks) +
           " blocks";
  }
  std::string box;
  for (int k = 0; k < plan.box_rank; ++k) {
    box += (k == 0 ? "" : " x ") + std::to_string(plan.box[k]);
  }
  return "box of " + box + " elements of " + std::to_string(plan.element_bytes) + " bytes, " +
         std::to_string(plan.source_vector_bytes) + "-byte reads, " +
         std::to_string(plan.target_vector_bytes) + "-byte writes, " + std::to_string(plan.blocks) +
         " blocks";
}

}  // namespace tranship::gpu
