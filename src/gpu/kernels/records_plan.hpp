// Plans for nests that are the fields of one array of records.
#pragma once

#include <span>
#include <vector>

#include "gpu/kernels/normal_nest.hpp"

namespace tranship::gpu {

/// Appends one plan for all the nests, if on one side they are the fields of records. Returns
/// false, with nothing appended, if they are not or if another kernel is as good.
bool plan_records(std::span<const NormalNest> normals, const std::byte* source,
                  const std::byte* target, const KernelTuning& tuning,
                  std::vector<KernelPlan>& plans);

std::string explain_records(const KernelPlan& plan);

}  // namespace tranship::gpu
