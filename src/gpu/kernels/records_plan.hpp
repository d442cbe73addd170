// Plans for nests that are the fields of one array of records, and for transposes that no vector
// of the source and the target fits.
#pragma once

#include <span>
#include <vector>

#include "gpu/kernels/nest_work.hpp"

namespace tranship::gpu {

/// Appends one plan that carries all the nests, if on one side they are the fields of records.
/// False, with nothing appended: they are not, or another kernel is as good.
bool plan_records(std::span<const Work> works, const std::byte* source, const std::byte* target,
                  const KernelTuning& tuning, std::vector<KernelPlan>& plans);

/// Appends one plan if the nests are the fields of records on both sides, in another order or with
/// other gaps, blocks of several records' fields included.
bool plan_shuffle(std::span<const Work> works, const std::byte* source, const std::byte* target,
                  const KernelTuning& tuning, std::vector<KernelPlan>& plans);

/// The same for one nest, as records of one field: its elements in the source.
bool plan_transpose(const Work& work, const std::byte* source, const std::byte* target,
                    const KernelTuning& tuning, std::vector<KernelPlan>& plans);

std::string explain_records(const KernelPlan& plan);

}  // namespace tranship::gpu
