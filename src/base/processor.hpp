// What the processor can do beyond what the compiler may assume.
#pragma once

namespace tranship {

/// Returns whether functions that are compiled for AVX2 run here.
inline bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") != 0;
#else
  return false;
#endif
}

}  // namespace tranship
