// Launches of kernels in a stream of a GPU, and the same index arithmetic on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/kernels/cast_plan.hpp"
#include "gpu/kernels/kernel_plan.hpp"
#include "gpu/kernels/nest_list.hpp"
#include "gpu/kernels/place_list.hpp"
#include "gpu/kernels/repeated_nest.hpp"
#include "gpu/kernels/run_table.hpp"

namespace tranship::gpu {

/// Launches a kernel on the current device, for one nest or for several of its shape, whose origins
/// the GPU must be able to read until the kernel has ended. stream: A cudaStream_t. Returns a
/// cudaError_t: 0 is success.
int launch(const KernelPlan& plan, const Repeats& repeats, const std::byte* source,
           std::byte* target, void* stream);

/// Launches a kernel that converts numbers.
int launch_cast(const CastPlan& plan, const std::byte* source, std::byte* target, void* stream);

/// Launches a kernel for pieces. The GPU must be able to read `pieces` until the kernel has ended.
int launch_pieces(const Run* pieces, std::int64_t count, const std::byte* source, std::byte* target,
                  void* stream);

/// Launches a kernel for a table of runs. The GPU must be able to read the table until the
/// kernel has ended.
int launch_runs(const RunTable& table, const std::byte* source, std::byte* target, void* stream);

/// Launches a kernel for a list of nests. The GPU must be able to read the table's parts until the
/// kernel has ended.
int launch_list(const NestTable& table, const std::byte* source, std::byte* target, void* stream);

/// Launches a kernel for lists of places. The GPU must be able to read the table until the kernel
/// has ended.
int launch_places(const PlaceLaunch& places, const std::byte* source, std::byte* target,
                  void* stream);

/// Makes the same accesses in the same order of blocks in host memory, for tests and for emulated
/// GPUs.
void run_on_host(const KernelPlan& plan, const std::byte* source, std::byte* target,
                 const Repeats& repeats = {});
void run_cast_on_host(const CastPlan& plan, const std::byte* source, std::byte* target);
void run_pieces_on_host(const Run* pieces, std::int64_t count, const std::byte* source,
                        std::byte* target);
void run_runs_on_host(const RunTable& table, const std::byte* source, std::byte* target);
void run_list_on_host(const NestTable& table, const std::byte* source, std::byte* target);
void run_places_on_host(const PlaceLaunch& places, const std::byte* source, std::byte* target);

}  // namespace tranship::gpu
