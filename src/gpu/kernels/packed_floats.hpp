// Conversions of two numbers at once by the instructions that GPUs have for short floating-point
// types. They are those of data/number_functions.hpp but for NaNs and for what is too large, which
// the callers look for first. Elsewhere there are none.
#pragma once

#include <cstdint>

#include "data/number_type.hpp"
#include "gpu/kernels/kernel_body.hpp"

namespace tranship::gpu {

#ifdef __CUDA_ARCH__
constexpr bool has_packed_halves = true;
constexpr bool has_packed_float8 = __CUDA_ARCH__ >= 890;
#else
constexpr bool has_packed_halves = false;
constexpr bool has_packed_float8 = false;
#endif

/// Whether a kind has such instructions.
constexpr TRANSHIP_DEVICE bool is_packed(NumberKind kind) {
  if (kind == NumberKind::float16 || kind == NumberKind::bfloat16) return has_packed_halves;
  if (kind == NumberKind::float8_e4m3fn || kind == NumberKind::float8_e5m2)
    return has_packed_float8;
  return false;
}

/// Returns the largest number that rounds to a finite one of the kind: half of the last bit beyond
/// the largest, which is one if the largest is even.
constexpr TRANSHIP_DEVICE float largest_rounded(NumberKind kind) {
  switch (kind) {
    case NumberKind::float16: return 65519.996f;
    case NumberKind::float8_e4m3fn: return 464.0f;
    case NumberKind::float8_e5m2: return 61439.996f;
    default: return 0x1.fefffep127f;  // bfloat16
  }
}

#ifdef __CUDA_ARCH__
/// Decodes two float16, the first in the lower half.
TRANSHIP_DEVICE void floats_of_halves(std::uint32_t pair, float& first, float& second) {
  asm("{.reg .b16 low, high;\n\tmov.b32 {low, high}, %2;\n\tcvt.f32.f16 %0, low;\n\t"
      "cvt.f32.f16 %1, high;}"
      : "=f"(first), "=f"(second)
      : "r"(pair));
}

/// Decodes two numbers whose patterns are given.
template <NumberKind kind>
TRANSHIP_DEVICE void decode_pair(std::uint32_t low, std::uint32_t high, float& first,
                                 float& second) {
  if constexpr (kind == NumberKind::float16) {
    floats_of_halves(__byte_perm(low, high, 0x5410), first, second);
  } else if constexpr (has_packed_float8) {
    const auto pair = static_cast<unsigned short>(low | high << 8);
    std::uint32_t halves;
    if constexpr (kind == NumberKind::float8_e4m3fn) {
      asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(pair));
    } else {
      asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(pair));
    }
    floats_of_halves(halves, first, second);
  }
}

/// Encodes two numbers of at most largest_rounded().
template <NumberKind kind>
TRANSHIP_DEVICE void encode_pair(float first, float second, std::uint32_t& low,
                                 std::uint32_t& high) {
  if constexpr (kind == NumberKind::float16 || kind == NumberKind::bfloat16) {
    std::uint32_t pair;
    if constexpr (kind == NumberKind::float16) {
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    } else {
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    }
    low = pair & 0xffffu;
    high = pair >> 16;
  } else if constexpr (has_packed_float8) {
    unsigned short pair;
    if constexpr (kind == NumberKind::float8_e4m3fn) {
      asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
    } else {
      asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
    }
    low = pair & 0xffu;
    high = static_cast<std::uint32_t>(pair) >> 8;
  }
}
#endif

/// Decodes numbers, an even count of them. Returns whether none of them is NaN; else they are not
/// to be used.
template <NumberKind kind, int count>
TRANSHIP_DEVICE bool decode_packed(const std::uint32_t (&bits)[count], float (&values)[count]) {
#ifdef __CUDA_ARCH__
  bool usual = true;
  TRANSHIP_UNROLL
  for (int k = 0; k < count; k += 2) {
    decode_pair<kind>(bits[k], bits[k + 1], values[k], values[k + 1]);
    usual = usual && values[k] == values[k] && values[k + 1] == values[k + 1];
  }
  return usual;
#else
  (void)bits, (void)values;
  return false;
#endif
}

/// Encodes numbers, an even count of them, if none is NaN or too large. Returns whether it did.
template <NumberKind kind, int count>
TRANSHIP_DEVICE bool encode_packed(const float (&values)[count], std::uint32_t (&bits)[count]) {
#ifdef __CUDA_ARCH__
  bool usual = true;
  TRANSHIP_UNROLL
  for (int k = 0; k < count; ++k) usual = usual && fabsf(values[k]) <= largest_rounded(kind);
  if (!usual) return false;
  TRANSHIP_UNROLL
  for (int k = 0; k < count; k += 2) {
    encode_pair<kind>(values[k], values[k + 1], bits[k], bits[k + 1]);
  }
  return true;
#else
  (void)values, (void)bits;
  return false;
#endif
}

}  // namespace tranship::gpu
