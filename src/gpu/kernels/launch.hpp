// Starts kernels on a stream of a GPU, or runs the same index arithmetic on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/kernels/kernel_plan.hpp"
#include "gpu/kernels/nest_list.hpp"

namespace tranship::gpu {

/// On the current device; `stream` is a cudaStream_t. Returns a cudaError_t: 0 is success.
int launch(const KernelPlan& plan, const std::byte* source, std::byte* target, void* stream);

/// `pieces` must be readable by the GPU until the kernel has ended.
int launch_pieces(const Piece* pieces, std::int64_t count, const std::byte* source,
                  std::byte* target, void* stream);

/// The table's parts must be readable by the GPU until the kernel has ended.
int launch_list(const NestTable& table, const std::byte* source, std::byte* target, void* stream);

/// The same accesses in the same order of blocks, in memory of the host: for tests, and for
/// emulated GPUs.
void run_on_host(const KernelPlan& plan, const std::byte* source, std::byte* target);
void run_pieces_on_host(const Piece* pieces, std::int64_t count, const std::byte* source,
                        std::byte* target);
void run_list_on_host(const NestTable& table, const std::byte* source, std::byte* target);

}  // namespace tranship::gpu
