// Loops over numbers that use instructions of x86-64 which compilers do not find by themselves.
#pragma once

#include "channels/host/number_kernels.hpp"

#if defined(__x86_64__)

namespace tranship::host {

/// Whether this processor converts float16 (F16C), and looks bytes up in registers (AVX-512 VBMI).
bool has_f16c();
bool has_vbmi();

/// Replace loops by ones that convert float16 by instructions of its own, and, with AVX-512, those
/// that encode bfloat16. The processor has F16C and AVX2, or AVX-512.
void use_floats_f16c(NumberKernels& set);
void use_floats_avx512(NumberKernels& set);

/// Adds the loops that look up bytes. The processor has AVX-512 VBMI.
void use_tables_vbmi(NumberKernels& set);

}  // namespace tranship::host

#endif
