// The plan of loop nests for a GPU: chosen on the host, and passed to the kernel by value.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "data/loop_nest.hpp"
#include "gpu/kernels/kernel_tuning.hpp"
#include "gpu/kernels/nest_plan.hpp"
#include "gpu/kernels/records_plan.hpp"
#include "gpu/kernels/table_tile_plan.hpp"
#include "gpu/kernels/tile_plan.hpp"

namespace tranship::gpu {

/// The plan of one launch: a value of a few kilobytes; addresses are given at the launch. A kernel
/// gets only the part that it needs.
struct KernelPlan : NestPlan {
  RecordsPlan records;
  TilePlan tile;
  TablePlan table;
};

/// Appends the plans that carry `nest` between two addresses: usually one, several if the nest has
/// more loops than a kernel walks. Of the addresses, only the alignment matters.
void plan_kernels(const LoopNest& nest, const std::byte* source, const std::byte* target,
                  std::vector<KernelPlan>& plans, const KernelTuning& tuning = {});

/// Appends one plan for nests that are the fields of the same records. Returns false, with nothing
/// appended, if they are not; then each nest is planned alone.
bool plan_fields(std::span<const LoopNest> nests, const std::byte* source, const std::byte* target,
                 std::vector<KernelPlan>& plans, const KernelTuning& tuning = {});

/// Appends the plans of nests that are carried together: as fields of records, or each alone.
void plan_kernels(std::span<const LoopNest> nests, const std::byte* source, const std::byte* target,
                  std::vector<KernelPlan>& plans, const KernelTuning& tuning = {});

/// Describes a plan, such as "box of 64 x 32 elements of 4 bytes, 16-byte reads, 16-byte writes".
std::string explain(const KernelPlan& plan);

}  // namespace tranship::gpu
