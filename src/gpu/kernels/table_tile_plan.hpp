// Plans for boxes of any loops, in which a table says where the units of a target run lie.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "gpu/kernels/normal_nest.hpp"

namespace tranship::gpu {

/// Appends one plan for nests that have the same loops, such as the fields of records, or for one
/// nest. Returns false, with nothing appended, if no box of theirs fits a block.
bool plan_table_tile(std::span<const NormalNest> normals, const std::byte* source,
                     const std::byte* target, const KernelTuning& tuning,
                     std::vector<KernelPlan>& plans);

std::string explain_table_tile(const KernelPlan& plan);

}  // namespace tranship::gpu
