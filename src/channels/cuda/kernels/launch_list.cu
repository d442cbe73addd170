// Kernels for lists of nests.
#include <cuda_runtime.h>

#include "channels/cuda/kernels/launch.hpp"
#include "channels/cuda/kernels/nest_list_body.hpp"
#include "channels/cuda/kernels/select_kernel.hpp"

namespace tranship::cuda {
namespace {

template <int element_bytes, int loops>
__global__ void __launch_bounds__(kernel_threads)
    list_kernel(const NestGroup* groups, std::int32_t groups_count, const NestOffsets* nests,
                const std::byte* source, std::byte* target) {
  constexpr std::uint32_t words = sizeof(NestGroup) / sizeof(std::uint32_t);
  static_assert(sizeof(NestGroup) % sizeof(std::uint32_t) == 0);
  __shared__ alignas(NestGroup) std::uint32_t held[words];
  const NestGroup* group = groups + find_group(groups, groups_count, blockIdx.x);
  const auto* from = reinterpret_cast<const std::uint32_t*>(group);
  for (std::uint32_t k = threadIdx.x; k < words; k += kernel_threads) held[k] = from[k];
  __syncthreads();
  move_listed<element_bytes, loops>(*reinterpret_cast<const NestGroup*>(held), nests, blockIdx.x,
                                    source, target, threadIdx.x);
}

/// What select_list() calls.
struct Launch {
  const NestTable& table;
  const std::byte* source;
  std::byte* target;
  cudaStream_t stream;

  template <int element_bytes, int loops>
  int list() const {
    list_kernel<element_bytes, loops>
        <<<static_cast<unsigned>(table.blocks), kernel_threads, 0, stream>>>(
            table.groups, table.groups_count, table.nests, source, target);
    return cudaGetLastError();
  }
};

}  // namespace

int launch_list(const NestTable& table, const std::byte* source, std::byte* target, void* stream) {
  if (table.blocks == 0) return cudaSuccess;
  return select_list(table, Launch{table, source, target, static_cast<cudaStream_t>(stream)});
}

}  // namespace tranship::cuda
