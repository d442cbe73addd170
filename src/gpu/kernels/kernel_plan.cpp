#include "gpu/kernels/kernel_plan.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "gpu/kernels/box_plan.hpp"
#include "gpu/kernels/normal_nest.hpp"
#include "gpu/kernels/records_body.hpp"
#include "gpu/kernels/records_plan.hpp"
#include "gpu/kernels/table_tile_plan.hpp"
#include "gpu/kernels/tile_plan.hpp"

namespace tranship::gpu {
namespace {

/// Shortest run, in bytes, that needs no shared memory if both sides have such runs.
constexpr std::int64_t long_run_bytes = 128;
constexpr std::int64_t row_bytes_min = 32;

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

/// Returns whether both sides walk memory in the same order: then a box gains nothing.
bool same_order(const std::vector<Loop>& loops) {
  const std::vector<std::size_t> order = source_order(loops);
  std::size_t moving = 0;
  while (moving < loops.size() && loops[order[moving]].source_stride != 0) ++moving;
  return std::is_sorted(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(moving));
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
                 const BoxWay& way, std::vector<KernelPlan>& plans) {
  if (normal.loops.size() <= kernel_loops_max) {
    plans.push_back(plan_box(normal, source, target, way));
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
  const BoxWay way{direct, direct ? direct_kind : KernelKind::box, tuning};
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
