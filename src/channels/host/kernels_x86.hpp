// The kernel sets of x86-64.
#pragma once

#include "channels/host/kernels.hpp"

#if defined(__x86_64__)

namespace tranship::host {

extern const Kernels sse2_kernels;
extern const Kernels avx2_kernels;
extern const Kernels avx512_kernels;

/// Whether this processor has what avx2_kernels and avx512_kernels use.
bool has_avx2();
bool has_avx512();

}  // namespace tranship::host

#endif
