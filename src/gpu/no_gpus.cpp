// Replaces cuda_gpus.cpp in a build without a CUDA compiler.
#include "gpu/gpus.hpp"

namespace tranship {

Result<std::shared_ptr<Gpus>> Gpus::open() {
  return Error{ErrorCode::unsupported, "this build has no CUDA",
               "install the CUDA toolkit (nvcc), then install tranship again"};
}

}  // namespace tranship
