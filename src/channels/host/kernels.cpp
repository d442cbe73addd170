#include "channels/host/kernels.hpp"

#include <atomic>
#include <cstring>
#include <string_view>

#include "channels/host/kernels_x86.hpp"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace tranship::host {
namespace {

void stream_scalar(const std::byte* source, std::byte* target, std::int64_t bytes) {
  std::memcpy(target, source, static_cast<std::size_t>(bytes));
}

constexpr Kernels scalar_kernels{"scalar", stream_scalar, nullptr, nullptr, {}, {}, {}, {}};

const Kernels& best_kernels() {
#if defined(__x86_64__)
  if (has_avx512()) return avx512_kernels;
  if (has_avx2()) return avx2_kernels;
  return sse2_kernels;
#else
  return scalar_kernels;
#endif
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& best = best_kernels();
  return best;
}

const Kernels* kernels_named(const char* name) {
  const std::string_view wanted = name;
  if (wanted == "scalar") return &scalar_kernels;
#if defined(__x86_64__)
  if (wanted == "sse2") return &sse2_kernels;
  if (wanted == "avx2" && has_avx2()) return &avx2_kernels;
  if (wanted == "avx512" && has_avx512()) return &avx512_kernels;
#endif
  return nullptr;
}

void fence_streams() {
#if defined(__x86_64__)
  _mm_sfence();
#else
  std::atomic_thread_fence(std::memory_order_release);
#endif
}

}  // namespace tranship::host
