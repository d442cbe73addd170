#include "channels/host/number_kernels_x86.hpp"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#include <cstring>
#include <limits>

#include "data/number_functions.hpp"

#if !defined(__clang__)
// GCC's own headers of instructions use values that they leave uninitialised on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define TRANSHIP_F16C __attribute__((target("avx2,f16c")))
#define TRANSHIP_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define TRANSHIP_VBMI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")))
#define TRANSHIP_STEP [[gnu::always_inline]] static inline

namespace tranship::host {
namespace {

constexpr int to_nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
/// Most bytes that a step of a loop reads or writes.
constexpr std::int64_t step_bytes_max = 512;

template <typename Step>
TRANSHIP_F16C void steps_f16c(const std::byte* source, std::byte* target, std::int64_t steps) {
  for (std::int64_t k = 0; k < steps; ++k) {
    Step::take(source + k * Step::source_bytes, target + k * Step::target_bytes);
  }
}

template <typename Step>
TRANSHIP_AVX512 void steps_avx512(const std::byte* source, std::byte* target, std::int64_t steps) {
  for (std::int64_t k = 0; k < steps; ++k) {
    Step::take(source + k * Step::source_bytes, target + k * Step::target_bytes);
  }
}

/// Takes steps for all numbers: the last one, in buffers, for those that do not fill one.
template <typename Step, auto steps, typename... Table>
void loop(Table... table, const std::byte* source, std::byte* target, std::int64_t count) {
  const std::int64_t whole = count / Step::numbers;
  steps(table..., source, target, whole);
  const auto left = static_cast<std::size_t>(count % Step::numbers);
  if (left == 0) return;
  std::byte read[step_bytes_max] = {};
  std::byte written[step_bytes_max];
  std::memcpy(read, source + whole * Step::source_bytes,
              left * (Step::source_bytes / Step::numbers));
  steps(table..., read, written, 1);
  std::memcpy(target + whole * Step::target_bytes, written,
              left * (Step::target_bytes / Step::numbers));
}

/// Decodes float16 to float32. The instruction makes NaNs quiet, and they shall keep their bits.
struct DecodeHalves8 {
  static constexpr std::int64_t numbers = 8;
  static constexpr std::int64_t source_bytes = 2 * numbers;
  static constexpr std::int64_t target_bytes = 4 * numbers;

  TRANSHIP_STEP TRANSHIP_F16C void take(const std::byte* source, std::byte* target) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source));
    const __m256 values = _mm256_cvtph_ps(halves);
    _mm256_storeu_ps(reinterpret_cast<float*>(target), values);
    if (_mm256_movemask_ps(_mm256_cmp_ps(values, values, _CMP_UNORD_Q)) == 0) return;
    for (int k = 0; k < numbers; ++k) {
      std::uint16_t half;
      std::memcpy(&half, source + 2 * k, sizeof half);
      const float value = numbers::float_of<NumberKind::float16>(half);
      std::memcpy(target + 4 * k, &value, sizeof value);
    }
  }
};

struct DecodeHalves16 {
  static constexpr std::int64_t numbers = 16;
  static constexpr std::int64_t source_bytes = 2 * numbers;
  static constexpr std::int64_t target_bytes = 4 * numbers;

  TRANSHIP_STEP TRANSHIP_AVX512 void take(const std::byte* source, std::byte* target) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source));
    const __m512 values = _mm512_cvtph_ps(halves);
    const __mmask16 nans = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
    const __mmask16 made_quiet =
        _mm256_mask_testn_epi16_mask(nans, halves, _mm256_set1_epi16(0x200));
    const __m512i bits = _mm512_castps_si512(values);
    _mm512_storeu_si512(target,
                        _mm512_mask_sub_epi32(bits, made_quiet, bits, _mm512_set1_epi32(0x400000)));
  }
};

/// Encodes float16 from a carrier of four bytes. keeps: Whether NaNs keep their payload.
template <Carrier carrier, bool keeps>
struct EncodeHalves8 {
  static constexpr std::int64_t numbers = 8;
  static constexpr std::int64_t source_bytes = 4 * numbers;
  static constexpr std::int64_t target_bytes = 2 * numbers;

  TRANSHIP_STEP TRANSHIP_F16C void take(const std::byte* source, std::byte* target) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source));
    const __m256 values =
        carrier == Carrier::int32 ? _mm256_cvtepi32_ps(bits) : _mm256_castsi256_ps(bits);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target), _mm256_cvtps_ph(values, to_nearest));
    if (_mm256_movemask_ps(_mm256_cmp_ps(values, values, _CMP_UNORD_Q)) == 0) return;
    for (int k = 0; k < numbers; ++k) {
      float value;
      std::memcpy(&value, source + 4 * k, sizeof value);
      const auto half =
          static_cast<std::uint16_t>(numbers::round_to<NumberKind::float16, keeps>(value));
      std::memcpy(target + 2 * k, &half, sizeof half);
    }
  }
};

template <Carrier carrier>
TRANSHIP_STEP TRANSHIP_AVX512 __m512 floats_of(const std::byte* source) {
  const __m512i first = _mm512_loadu_si512(source);
  if constexpr (carrier == Carrier::int32) {
    return _mm512_cvtepi32_ps(first);
  } else if constexpr (carrier == Carrier::int64 || carrier == Carrier::uint64) {
    const __m512i second = _mm512_loadu_si512(source + sizeof first);
    constexpr bool is_signed = carrier == Carrier::int64;
    const __m256 low = is_signed ? _mm512_cvtepi64_ps(first) : _mm512_cvtepu64_ps(first);
    const __m256 high = is_signed ? _mm512_cvtepi64_ps(second) : _mm512_cvtepu64_ps(second);
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
  } else {
    return _mm512_castsi512_ps(first);
  }
}

template <Carrier carrier, bool keeps>
struct EncodeHalves16 {
  static constexpr std::int64_t numbers = 16;
  static constexpr bool wide = carrier == Carrier::int64 || carrier == Carrier::uint64;
  static constexpr std::int64_t source_bytes = (wide ? 8 : 4) * numbers;
  static constexpr std::int64_t target_bytes = 2 * numbers;

  TRANSHIP_STEP TRANSHIP_AVX512 void take(const std::byte* source, std::byte* target) {
    const __m512 values = floats_of<carrier>(source);
    __m256i halves = _mm512_cvtps_ph(values, to_nearest);
    const __mmask16 nans = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
    if constexpr (keeps) {
      // The instruction makes NaNs quiet; those that were not keep the payload that they had, of
      // which one bit at least is set.
      const __mmask16 made_quiet = _mm512_mask_testn_epi32_mask(nans, _mm512_castps_si512(values),
                                                                _mm512_set1_epi32(0x400000));
      halves = _mm256_mask_sub_epi16(halves, made_quiet, halves, _mm256_set1_epi16(0x200));
      const __mmask16 infinite =
          _mm256_mask_testn_epi16_mask(made_quiet, halves, _mm256_set1_epi16(0x3ff));
      halves = _mm256_mask_add_epi16(halves, infinite, halves, _mm256_set1_epi16(1));
    } else {
      const __m256i quiet = _mm256_set1_epi16(static_cast<short>(0xfe00));
      halves = _mm256_mask_mov_epi16(halves, nans, _mm256_and_si256(halves, quiet));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target), halves);
  }
};

/// Encodes bfloat16, whose NaNs have no payload.
template <Carrier carrier>
struct EncodeBrains16 {
  static constexpr std::int64_t numbers = EncodeHalves16<carrier, false>::numbers;
  static constexpr std::int64_t source_bytes = EncodeHalves16<carrier, false>::source_bytes;
  static constexpr std::int64_t target_bytes = 2 * numbers;

  TRANSHIP_STEP TRANSHIP_AVX512 void take(const std::byte* source, std::byte* target) {
    const __m512 values = floats_of<carrier>(source);
    const __m512i bits = _mm512_castps_si512(values);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7fff));
    const __mmask16 nans = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
    const __m512i sign = _mm512_and_si512(bits, _mm512_set1_epi32(std::numeric_limits<int>::min()));
    const __m512i result = _mm512_mask_or_epi32(rounded, nans, sign, _mm512_set1_epi32(0x7fc00000));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target),
                        _mm512_cvtepi32_epi16(_mm512_srli_epi32(result, 16)));
  }
};

/// Looks up 64 numbers of one byte in a table of 256 results of `bytes` each.
template <int bytes>
struct LookUp {
  static constexpr std::int64_t numbers = 64;
  static constexpr std::int64_t source_bytes = numbers;
  static constexpr std::int64_t target_bytes = bytes * numbers;

  /// The parts of a table, in registers.
  struct Planes {
    __m512i parts[bytes][4];
  };

  TRANSHIP_STEP TRANSHIP_VBMI Planes load(const std::byte* table) {
    Planes planes;
#pragma GCC unroll 4
    for (int b = 0; b < bytes; ++b) {
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) {
        planes.parts[b][k] = _mm512_loadu_si512(table + (4 * b + k) * 64);
      }
    }
    return planes;
  }

  TRANSHIP_STEP TRANSHIP_VBMI __m512i look_up(const __m512i (&parts)[4], __m512i places) {
    const __m512i lower = _mm512_permutex2var_epi8(parts[0], places, parts[1]);
    const __m512i upper = _mm512_permutex2var_epi8(parts[2], places, parts[3]);
    return _mm512_mask_mov_epi8(lower, _mm512_movepi8_mask(places), upper);
  }

  TRANSHIP_STEP TRANSHIP_VBMI void take(const Planes& planes, const std::byte* source,
                                        std::byte* target) {
    const __m512i places = _mm512_loadu_si512(source);
    if constexpr (bytes == 1) {
      _mm512_storeu_si512(target, look_up(planes.parts[0], places));
    } else if constexpr (bytes == 2) {
      // Bytes are interleaved within the four lanes of a register: each lane takes eight numbers of
      // either half.
      const __m512i lanes = _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0);
      const __m512i ordered = _mm512_permutexvar_epi64(lanes, places);
      const __m512i low = look_up(planes.parts[0], ordered);
      const __m512i high = look_up(planes.parts[1], ordered);
      _mm512_storeu_si512(target, _mm512_unpacklo_epi8(low, high));
      _mm512_storeu_si512(target + 64, _mm512_unpackhi_epi8(low, high));
    } else if constexpr (bytes == 8) {
      // Each lane takes two numbers of each eighth.
      const __m512i lanes = _mm512_set_epi16(
          31, 27, 23, 19, 15, 11, 7, 3, 30, 26, 22, 18, 14, 10, 6, 2,  // of the upper two lanes
          29, 25, 21, 17, 13, 9, 5, 1, 28, 24, 20, 16, 12, 8, 4, 0);
      const __m512i ordered = _mm512_permutexvar_epi16(lanes, places);
      __m512i pairs[2][4];  // of bytes, for the lower and upper half of each lane
#pragma GCC unroll 4
      for (int b = 0; b < 4; ++b) {
        const __m512i even = look_up(planes.parts[2 * b], ordered);
        const __m512i odd = look_up(planes.parts[2 * b + 1], ordered);
        pairs[0][b] = _mm512_unpacklo_epi8(even, odd);
        pairs[1][b] = _mm512_unpackhi_epi8(even, odd);
      }
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const __m512i(&of)[4] = pairs[half];
        const __m512i low = _mm512_unpacklo_epi16(of[0], of[1]);
        const __m512i low_ends = _mm512_unpacklo_epi16(of[2], of[3]);
        const __m512i high = _mm512_unpackhi_epi16(of[0], of[1]);
        const __m512i high_ends = _mm512_unpackhi_epi16(of[2], of[3]);
        std::byte* const at = target + 256 * half;
        _mm512_storeu_si512(at, _mm512_unpacklo_epi32(low, low_ends));
        _mm512_storeu_si512(at + 64, _mm512_unpackhi_epi32(low, low_ends));
        _mm512_storeu_si512(at + 128, _mm512_unpacklo_epi32(high, high_ends));
        _mm512_storeu_si512(at + 192, _mm512_unpackhi_epi32(high, high_ends));
      }
    } else {
      // Each lane takes four numbers of each quarter.
      const __m512i lanes = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
      const __m512i ordered = _mm512_permutexvar_epi32(lanes, places);
      __m512i found[4];
#pragma GCC unroll 4
      for (int b = 0; b < 4; ++b) found[b] = look_up(planes.parts[b], ordered);
      const __m512i first_low = _mm512_unpacklo_epi8(found[0], found[1]);
      const __m512i first_high = _mm512_unpackhi_epi8(found[0], found[1]);
      const __m512i last_low = _mm512_unpacklo_epi8(found[2], found[3]);
      const __m512i last_high = _mm512_unpackhi_epi8(found[2], found[3]);
      _mm512_storeu_si512(target, _mm512_unpacklo_epi16(first_low, last_low));
      _mm512_storeu_si512(target + 64, _mm512_unpackhi_epi16(first_low, last_low));
      _mm512_storeu_si512(target + 128, _mm512_unpacklo_epi16(first_high, last_high));
      _mm512_storeu_si512(target + 192, _mm512_unpackhi_epi16(first_high, last_high));
    }
  }
};

template <typename Step>
TRANSHIP_VBMI void steps_vbmi(const std::byte* table, const std::byte* source, std::byte* target,
                              std::int64_t steps) {
  const auto planes = Step::load(table);
  for (std::int64_t k = 0; k < steps; ++k) {
    Step::take(planes, source + k * Step::source_bytes, target + k * Step::target_bytes);
  }
}

template <int bytes>
void look_up_vbmi(const std::byte* table, const std::byte* source, std::byte* target,
                  std::int64_t count) {
  loop<LookUp<bytes>, steps_vbmi<LookUp<bytes>>, const std::byte*>(table, source, target, count);
}

template <typename Step>
constexpr NumberLoop of_f16c = &loop<Step, steps_f16c<Step>>;
template <typename Step>
constexpr NumberLoop of_avx512 = &loop<Step, steps_avx512<Step>>;

NumberLoop& encoder(NumberKernels& set, Carrier carrier, NumberKind kind) {
  return set.encode[static_cast<std::size_t>(carrier)][static_cast<std::size_t>(kind)];
}

template <Carrier carrier, bool keeps>
void use_encoders_avx512(NumberKernels& set) {
  encoder(set, carrier, NumberKind::float16) = of_avx512<EncodeHalves16<carrier, keeps>>;
  encoder(set, carrier, NumberKind::bfloat16) = of_avx512<EncodeBrains16<carrier>>;
}

template <Carrier carrier, bool keeps>
void use_encoder_f16c(NumberKernels& set) {
  encoder(set, carrier, NumberKind::float16) = of_f16c<EncodeHalves8<carrier, keeps>>;
}

}  // namespace

/// Clang's __builtin_cpu_supports() does not know this feature.
bool has_f16c() {
  unsigned a = 0, b = 0, features = 0, d = 0;
  const bool asked = __get_cpuid(1, &a, &b, &features, &d) != 0;
  return asked && (features & bit_F16C) != 0 && __builtin_cpu_supports("avx2") != 0;
}

bool has_vbmi() { return __builtin_cpu_supports("avx512vbmi") != 0; }

void use_floats_f16c(NumberKernels& set) {
  set.decode[static_cast<std::size_t>(NumberKind::float16)] = of_f16c<DecodeHalves8>;
  use_encoder_f16c<Carrier::int32, true>(set);
  use_encoder_f16c<Carrier::float32, true>(set);
  use_encoder_f16c<Carrier::bfloat16, false>(set);
  use_encoder_f16c<Carrier::float8, false>(set);
}

void use_floats_avx512(NumberKernels& set) {
  set.decode[static_cast<std::size_t>(NumberKind::float16)] = of_avx512<DecodeHalves16>;
  use_encoders_avx512<Carrier::int32, true>(set);
  use_encoders_avx512<Carrier::int64, true>(set);
  use_encoders_avx512<Carrier::uint64, true>(set);
  use_encoders_avx512<Carrier::float32, true>(set);
  use_encoders_avx512<Carrier::bfloat16, false>(set);
  use_encoders_avx512<Carrier::float8, false>(set);
}

void use_tables_vbmi(NumberKernels& set) {
  set.look_up[1] = look_up_vbmi<1>;
  set.look_up[2] = look_up_vbmi<2>;
  set.look_up[4] = look_up_vbmi<4>;
  set.look_up[8] = look_up_vbmi<8>;
}

}  // namespace tranship::host

#endif
