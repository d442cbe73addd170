// Selection of the compiled kernel for a plan's run-time numbers.
#pragma once

#include "base/check.hpp"
#include "gpu/kernels/kernel_plan.hpp"
#include "gpu/kernels/nest_list.hpp"

namespace tranship::gpu {

template <int element_bytes, int source_bytes, int target_bytes, typename Launcher>
int select_loops(const KernelPlan& plan, const Launcher& run) {
  if (plan.box_rank <= 2) {
    return run.template box<element_bytes, source_bytes, target_bytes, 2>();
  }
  return run.template box<element_bytes, source_bytes, target_bytes, box_loops_max>();
}

template <int element_bytes, int source_bytes, typename Launcher>
int select_target(const KernelPlan& plan, const Launcher& run) {
  constexpr int word = element_bytes < 4 ? 4 : element_bytes;
  if (plan.target_vector_bytes == 16)
    return select_loops<element_bytes, source_bytes, 16>(plan, run);
  if (plan.target_vector_bytes == word) {
    return select_loops<element_bytes, source_bytes, word>(plan, run);
  }
  CHECK(plan.target_vector_bytes == element_bytes, "a plan's writes fit no kernel");
  return select_loops<element_bytes, source_bytes, element_bytes>(plan, run);
}

template <int element_bytes, typename Launcher>
int select_source(const KernelPlan& plan, const Launcher& run) {
  constexpr int word = element_bytes < 4 ? 4 : element_bytes;
  if (plan.kind != KernelKind::box) return run.template direct<element_bytes, false>();
  if (plan.source_vector_bytes == 16) return select_target<element_bytes, 16>(plan, run);
  if (plan.source_vector_bytes == word) return select_target<element_bytes, word>(plan, run);
  CHECK(plan.source_vector_bytes == element_bytes, "a plan's reads fit no kernel");
  return select_target<element_bytes, element_bytes>(plan, run);
}

template <bool to_columns, typename Launcher>
int select_records(const RecordsPlan& plan, const Launcher& run) {
  return plan.across ? run.template records<to_columns, true>()
                     : run.template records<to_columns, false>();
}

template <int unit_bytes, typename Launcher>
int select_tile_unit(const TilePlan& plan, const Launcher& run) {
  switch (plan.kind) {
    case TileKind::units: return run.template tile<unit_bytes, TileKind::units>();
    case TileKind::elements: return run.template tile<unit_bytes, TileKind::elements>();
    case TileKind::joined: return run.template tile<unit_bytes, TileKind::joined>();
  }
  return 1;
}

template <typename Launcher>
int select_table_tile(const KernelPlan& plan, const Launcher& run) {
  switch (plan.element_bytes) {
    case 1: return run.template table_tile<1>();
    case 2: return run.template table_tile<2>();
    case 4: return run.template table_tile<4>();
    case 8: return run.template table_tile<8>();
    default: CHECK(false, "a tile's units fit no kernel");
  }
  return 1;
}

template <typename Launcher>
int select_tile(const KernelPlan& plan, const Launcher& run) {
  switch (plan.element_bytes) {
    case 1: return select_tile_unit<1>(plan.tile, run);
    case 2: return select_tile_unit<2>(plan.tile, run);
    case 4: return select_tile_unit<4>(plan.tile, run);
    case 8: return select_tile_unit<8>(plan.tile, run);
    case 16: return select_tile_unit<16>(plan.tile, run);
    default: CHECK(false, "a tile's units fit no kernel");
  }
  return 1;
}

/// Calls `run.box<...>()`, `run.direct<...>()`, `run.tile<...>()`, `run.table_tile<...>()` or
/// `run.records<...>()` with the numbers of the plan.
template <typename Launcher>
int select_kernel(const KernelPlan& plan, const Launcher& run) {
  if (plan.kind == KernelKind::records) {
    return plan.records.to_columns ? select_records<true>(plan.records, run)
                                   : select_records<false>(plan.records, run);
  }
  if (plan.kind == KernelKind::tile) return select_tile(plan, run);
  if (plan.kind == KernelKind::table) return select_table_tile(plan, run);
  if (plan.kind == KernelKind::shifted) return run.template direct<16, true>();
  switch (plan.element_bytes) {
    case 1: return select_source<1>(plan, run);
    case 2: return select_source<2>(plan, run);
    case 4: return select_source<4>(plan, run);
    case 8: return select_source<8>(plan, run);
    case 16: return select_source<16>(plan, run);
    default: CHECK(false, "a plan's elements fit no kernel");
  }
  return 1;
}

/// Calls `run.list<...>()` with the numbers of a list.
template <typename Launcher>
int select_list(const NestTable& table, const Launcher& run) {
  if (table.shifted) return run.template list<16, true>();
  switch (table.element_bytes) {
    case 1: return run.template list<1, false>();
    case 2: return run.template list<2, false>();
    case 4: return run.template list<4, false>();
    case 8: return run.template list<8, false>();
    case 16: return run.template list<16, false>();
    default: CHECK(false, "a list's elements fit no kernel");
  }
  return 1;
}

}  // namespace tranship::gpu
