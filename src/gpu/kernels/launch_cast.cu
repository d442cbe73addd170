// Kernel that converts numbers on the way.
#include <cuda_runtime.h>

#include "gpu/kernels/cast_body.hpp"
#include "gpu/kernels/launch.hpp"

namespace tranship::gpu {
namespace {

__global__ void __launch_bounds__(kernel_threads)
    cast_kernel(const __grid_constant__ CastPlan plan, const std::byte* source, std::byte* target) {
  extern __shared__ uint4 shared_words[];
  std::byte* shared = reinterpret_cast<std::byte*>(shared_words);
  const CastPlace place = locate_cast(plan, blockIdx.x, source, target);
  if (!plan.shared) return move_cast(plan, place, threadIdx.x);
  load_cast(plan, place, threadIdx.x, shared);
  __syncthreads();
  store_cast(plan, place, threadIdx.x, shared);
}

}  // namespace

int launch_cast(const CastPlan& plan, const std::byte* source, std::byte* target, void* stream) {
  cast_kernel<<<static_cast<unsigned>(plan.blocks), kernel_threads,
                static_cast<std::size_t>(plan.shared_bytes), static_cast<cudaStream_t>(stream)>>>(
      plan, source, target);
  return cudaGetLastError();
}

}  // namespace tranship::gpu
