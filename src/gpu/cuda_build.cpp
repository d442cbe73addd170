#include "gpu/cuda_build.hpp"

#ifdef TRANSHIP_CUDA
#include <cuda_runtime_api.h>
#endif

namespace tranship {

CudaBuild cuda_build() {
#ifdef TRANSHIP_CUDA
  return {true,
          std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10),
          TRANSHIP_CUDA_ARCHITECTURES};
#else
  return {};
#endif
}

}  // namespace tranship
