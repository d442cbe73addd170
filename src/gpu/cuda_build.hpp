// What this build supports of NVIDIA GPUs, whatever machine it runs on.
#pragma once

#include <string>

namespace tranship {

struct CudaBuild {
  bool built_in = false;      ///< whether this build has the CUDA kernels and channel
  std::string version;        ///< version of the linked CUDA runtime, such as "13.0"; empty: none
  std::string architectures;  ///< CMake's architectures of the kernels: "80;90-real"; empty: none
};

CudaBuild cuda_build();

}  // namespace tranship
