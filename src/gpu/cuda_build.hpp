// What this build was made with for NVIDIA GPUs, on whatever machine it runs.
#pragma once

#include <string>

namespace tranship {

struct CudaBuild {
  bool built_in = false;      ///< whether kernels and the channel are in this build
  std::string version;        ///< of the CUDA runtime that is linked, such as "13.0"; empty: none
  std::string architectures;  ///< of the kernels, as CMake has them: "80;90-real"; empty: none
};

CudaBuild cuda_build();

}  // namespace tranship
