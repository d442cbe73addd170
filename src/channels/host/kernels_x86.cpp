#include "channels/host/kernels_x86.hpp"

#if defined(__x86_64__)

#include <immintrin.h>

#include "channels/host/shape.hpp"
#include "channels/host/transpose.hpp"

#define TRANSHIP_AVX2 __attribute__((target("avx2")))
#define TRANSHIP_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

namespace tranship::host {
namespace {

/// Copies what precedes the target's next cache line; returns how many bytes that was.
TRANSHIP_INLINE std::int64_t copy_head(const std::byte* source, std::byte* target,
                                       std::int64_t bytes) {
  const auto past = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(target) %
                                              static_cast<std::uintptr_t>(line_bytes));
  std::int64_t head = past == 0 ? 0 : line_bytes - past;
  if (head > bytes) head = bytes;
  std::memcpy(target, source, static_cast<std::size_t>(head));
  return head;
}

TRANSHIP_INLINE void copy_tail(const std::byte* source, std::byte* target, std::int64_t at,
                               std::int64_t bytes) {
  if (at < bytes) std::memcpy(target + at, source + at, static_cast<std::size_t>(bytes - at));
}

void stream_sse2(const std::byte* source, std::byte* target, std::int64_t bytes) {
  std::int64_t at = copy_head(source, target, bytes);
  for (; at + line_bytes <= bytes; at += line_bytes) {
    const auto* from = reinterpret_cast<const __m128i*>(source + at);
    auto* to = reinterpret_cast<__m128i*>(target + at);
    const __m128i a = _mm_loadu_si128(from);
    const __m128i b = _mm_loadu_si128(from + 1);
    const __m128i c = _mm_loadu_si128(from + 2);
    const __m128i d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
  }
  copy_tail(source, target, at, bytes);
}

TRANSHIP_AVX2 void stream_avx2(const std::byte* source, std::byte* target, std::int64_t bytes) {
  std::int64_t at = copy_head(source, target, bytes);
  for (; at + line_bytes <= bytes; at += line_bytes) {
    const auto* from = reinterpret_cast<const __m256i*>(source + at);
    auto* to = reinterpret_cast<__m256i*>(target + at);
    const __m256i a = _mm256_loadu_si256(from);
    const __m256i b = _mm256_loadu_si256(from + 1);
    _mm256_stream_si256(to, a);
    _mm256_stream_si256(to + 1, b);
  }
  copy_tail(source, target, at, bytes);
}

TRANSHIP_AVX512 void stream_avx512(const std::byte* source, std::byte* target, std::int64_t bytes) {
  std::int64_t at = copy_head(source, target, bytes);
  for (; at + line_bytes <= bytes; at += line_bytes) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(target + at), _mm512_loadu_si512(source + at));
  }
  copy_tail(source, target, at, bytes);
}

template <typename T, int width>
void transpose_sse2(const Grid& grid) {
  transpose_grid<T, width, false>(grid);
}

template <typename T, int width>
TRANSHIP_AVX2 void transpose_avx2(const Grid& grid) {
  transpose_grid<T, width, true>(grid);
}

template <typename T, int width>
TRANSHIP_AVX512 void transpose_avx512(const Grid& grid) {
  transpose_grid<T, width, true>(grid);
}

constexpr Kernels make_kernels(const char* name, decltype(Kernels::stream) stream,
                               GridKernel bytes_1, GridKernel bytes_2, GridKernel bytes_4,
                               GridKernel bytes_8, GridKernel bytes_16) {
  Kernels kernels{name, stream, {}};
  kernels.transpose[1] = bytes_1;
  kernels.transpose[2] = bytes_2;
  kernels.transpose[4] = bytes_4;
  kernels.transpose[8] = bytes_8;
  kernels.transpose[16] = bytes_16;
  return kernels;
}

}  // namespace

constinit const Kernels sse2_kernels = make_kernels(
    "sse2", stream_sse2, transpose_sse2<std::uint8_t, 16>, transpose_sse2<std::uint16_t, 8>,
    transpose_sse2<std::uint32_t, 4>, transpose_sse2<std::uint64_t, 2>, transpose_sse2<Wide, 4>);

constinit const Kernels avx2_kernels = make_kernels(
    "avx2", stream_avx2, transpose_avx2<std::uint8_t, 16>, transpose_avx2<std::uint16_t, 8>,
    transpose_avx2<std::uint32_t, 8>, transpose_avx2<std::uint64_t, 4>, transpose_avx2<Wide, 4>);

constinit const Kernels avx512_kernels =
    make_kernels("avx512", stream_avx512, transpose_avx512<std::uint8_t, 16>,
                 transpose_avx512<std::uint16_t, 8>, transpose_avx512<std::uint32_t, 16>,
                 transpose_avx512<std::uint64_t, 8>, transpose_avx512<Wide, 4>);

bool has_avx2() { return __builtin_cpu_supports("avx2") != 0; }

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
}

}  // namespace tranship::host

#endif
