// Plans for transposes of any shape: tiles of long source runs by long target runs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "gpu/kernels/normal_nest.hpp"

namespace tranship::gpu {

/// Appends one plan for a nest whose two sides go along different loops. Returns false, with
/// nothing appended, if they go along the same one, or if tiles are of no use.
bool plan_tile(const NormalNest& normal, const std::byte* source, const std::byte* target,
               const KernelTuning& tuning, std::vector<KernelPlan>& plans);

std::string explain_tile(const KernelPlan& plan);

}  // namespace tranship::gpu
