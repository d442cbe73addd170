// Kernels that convert numbers on the way.
#include <cuda_runtime.h>

#include "gpu/kernels/cast_body.hpp"
#include "gpu/kernels/launch.hpp"

namespace tranship::gpu {
namespace {

template <typename Form>
__global__ void __launch_bounds__(kernel_threads, Form::blocks)
    cast_kernel(const __grid_constant__ CastPlan plan, const std::byte* source, std::byte* target) {
  extern __shared__ uint4 shared_words[];
  std::byte* shared = reinterpret_cast<std::byte*>(shared_words);
  const CastPlace place = locate_cast(plan, blockIdx.x, source, target);
  convert_box<Form>(plan, place, threadIdx.x, shared);
  if constexpr (Form::shared) {
    __syncthreads();
    store_box(plan, place, threadIdx.x, shared);
  }
}

/// Launches the kernel of a form.
struct CastLaunch {
  const CastPlan& plan;
  const std::byte* source;
  std::byte* target;
  cudaStream_t stream;

  template <typename Form>
  int with() const {
    cast_kernel<Form>
        <<<static_cast<unsigned>(plan.blocks), kernel_threads,
           static_cast<std::size_t>(plan.shared_bytes), stream>>>(plan, source, target);
    return cudaGetLastError();
  }
};

}  // namespace

int launch_cast(const CastPlan& plan, const std::byte* source, std::byte* target, void* stream) {
  return select_cast(plan, CastLaunch{plan, source, target, static_cast<cudaStream_t>(stream)});
}

}  // namespace tranship::gpu
