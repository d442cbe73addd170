// Conversions of single numbers, bit for bit as NumPy and ml_dtypes make them on x86-64. Each goes
// through a carrier: the source is decoded to it without loss, and encoded from it with one
// rounding. The functions have no branches that depend on values, so that loops over them become
// vector instructions, and they run on GPUs as well.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "data/number_type.hpp"

#ifdef __CUDACC__
#define TRANSHIP_NUMBER __host__ __device__ __forceinline__
#elif defined(__GNUC__)
#define TRANSHIP_NUMBER [[gnu::always_inline]] inline
#else
#define TRANSHIP_NUMBER inline
#endif

namespace tranship::numbers {

template <typename To, typename From>
TRANSHIP_NUMBER To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

/// A binary floating-point format of at most 16 bits.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  enum class Special {
    ieee,        ///< infinities and NaNs have the largest exponent
    finite,      ///< no infinity; NaN has all bits set but the sign
    finite_nuz,  ///< no infinity and no negative zero, whose pattern is NaN
  } special;

  constexpr int sign_shift() const { return exponent_bits + mantissa_bits; }
  constexpr std::uint32_t sign() const { return 1u << sign_shift(); }
  constexpr std::uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
  constexpr std::uint32_t nan() const {
    if (special == Special::ieee) return infinity() | 1u << (mantissa_bits - 1);
    return special == Special::finite ? sign() - 1 : sign();
  }
  /// Returns the pattern of the largest finite number.
  constexpr std::uint32_t most() const {
    if (special == Special::ieee) return infinity() - 1;
    return special == Special::finite ? sign() - 2 : sign() - 1;
  }
  /// Returns what numbers become that are too large.
  constexpr std::uint32_t overflow() const { return special == Special::ieee ? infinity() : nan(); }
};

constexpr Format format_of(NumberKind kind) {
  using Special = Format::Special;
  switch (kind) {
    case NumberKind::float16: return {5, 10, 15, Special::ieee};
    case NumberKind::bfloat16: return {8, 7, 127, Special::ieee};
    case NumberKind::float8_e3m4: return {3, 4, 3, Special::ieee};
    case NumberKind::float8_e4m3: return {4, 3, 7, Special::ieee};
    case NumberKind::float8_e4m3b11fnuz: return {4, 3, 11, Special::finite_nuz};
    case NumberKind::float8_e4m3fn: return {4, 3, 7, Special::finite};
    case NumberKind::float8_e4m3fnuz: return {4, 3, 8, Special::finite_nuz};
    case NumberKind::float8_e5m2: return {5, 2, 15, Special::ieee};
    default: return {5, 2, 16, Special::finite_nuz};  // float8_e5m2fnuz
  }
}

/// Whether the kind is stored in one of these formats.
constexpr bool has_format(NumberKind kind) {
  return (kind == NumberKind::float16 || kind >= NumberKind::bfloat16) &&
         kind != NumberKind::float8_e8m0fnu;
}

/// The bits of a wide floating-point number: float or double. Signed, since vector instructions
/// compare signed integers.
template <typename Wide>
struct WideBits;
template <>
struct WideBits<float> {
  using Bits = std::int32_t;
  static constexpr int mantissa_bits = 23;
  static constexpr int bias = 127;
};
template <>
struct WideBits<double> {
  using Bits = std::int64_t;
  static constexpr int mantissa_bits = 52;
  static constexpr int bias = 1023;
};

/// Rounds a wide number to a format, to nearest, ties to even. keeps_payload: Whether NaNs keep the
/// upper bits of their payload, as NumPy's float16 does; else they become the format's NaN.
template <NumberKind kind, bool keeps_payload, typename Wide>
TRANSHIP_NUMBER std::uint32_t round_to(Wide value) {
  constexpr Format format = format_of(kind);
  using Bits = typename WideBits<Wide>::Bits;
  constexpr int wide_mantissa = WideBits<Wide>::mantissa_bits;
  constexpr int narrower = wide_mantissa - format.mantissa_bits;
  constexpr Bits one = 1;
  constexpr Bits magnitude_mask = std::numeric_limits<Bits>::max();
  constexpr Bits infinity = magnitude_mask & ~((one << wide_mantissa) - 1);
  constexpr Bits rebias = WideBits<Wide>::bias - format.bias;
  const Bits bits = bits_as<Bits>(value);
  const Bits magnitude = bits & magnitude_mask;
  const auto sign = static_cast<std::uint32_t>(bits < 0 ? format.sign() : 0);
  // A number that is normal in the format: exponent and mantissa are rounded as one integer.
  const Bits odd = (magnitude >> narrower) & 1;
  constexpr Bits down = (rebias << wide_mantissa) - (one << (narrower - 1)) + 1;
  using Unsigned = std::make_unsigned_t<Bits>;  // the sum wraps for some NaNs
  Bits result = static_cast<Bits>(static_cast<Unsigned>(magnitude) - static_cast<Unsigned>(down) +
                                  static_cast<Unsigned>(odd)) >>
                narrower;
  if constexpr (rebias > 0) {
    // A subnormal one: the sum with a number whose last bit is the format's last is rounded there.
    constexpr Bits last_bit = (rebias + 1 + narrower) << wide_mantissa;
    const Bits sum = bits_as<Bits>(bits_as<Wide>(magnitude) + bits_as<Wide>(last_bit));
    result = magnitude < (rebias + 1) << wide_mantissa ? sum - last_bit : result;
  }
  // What is too large, infinities included, is larger here than the largest number, whose successor
  // is the format's pattern for it.
  constexpr Bits overflow = format.overflow();
  static_assert(overflow == Bits{format.most()} + 1);
  result = result < overflow ? result : overflow;
  if constexpr (format.nan() != format.overflow()) {
    Bits nan = format.nan();
    if constexpr (keeps_payload) {
      const Bits payload = (magnitude & ~infinity) >> narrower;
      nan = Bits{format.infinity()} | (payload != 0 ? payload : 1);
    }
    result = magnitude > infinity ? nan : result;
  }
  const auto pattern = static_cast<std::uint32_t>(result);
  if constexpr (format.special == Format::Special::finite_nuz) {
    // Neither zero nor NaN has a sign.
    return pattern == 0 || pattern == format.nan() ? pattern : pattern | sign;
  }
  return pattern | sign;
}

/// Returns the value of a pattern of a format, which float holds exactly. NaNs of float16 and
/// bfloat16 keep their payload.
template <NumberKind kind>
TRANSHIP_NUMBER float float_of(std::uint32_t pattern) {
  constexpr Format format = format_of(kind);
  constexpr int wider = 23 - format.mantissa_bits;
  const std::uint32_t sign = (pattern >> format.sign_shift() & 1) << 31;
  if (kind == NumberKind::bfloat16) return bits_as<float>(pattern << 16);
  const std::uint32_t magnitude = pattern & (format.sign() - 1);
  constexpr std::uint32_t implicit_one = 1u << format.mantissa_bits;
  constexpr auto rebias = static_cast<std::uint32_t>(127 - format.bias);
  const std::uint32_t normal = (magnitude << wider) + (rebias << 23);
  // 2^(1 - bias - mantissa bits), by which the mantissa of a subnormal number is multiplied.
  constexpr auto unit_exponent =
      static_cast<std::uint32_t>(127 + 1 - format.bias - format.mantissa_bits);
  const float small = static_cast<float>(static_cast<std::int32_t>(magnitude)) *
                      bits_as<float>(unit_exponent << 23);
  std::uint32_t bits = magnitude < implicit_one ? bits_as<std::uint32_t>(small) : normal;
  constexpr std::uint32_t infinity = 0x7f800000u;
  constexpr std::uint32_t quiet_nan = 0x7fc00000u;
  if (kind == NumberKind::float16) {
    const std::uint32_t payload = (magnitude & (implicit_one - 1)) << wider;
    bits = magnitude >= format.infinity() ? infinity | payload : bits;
  } else if (format.special == Format::Special::ieee) {
    const std::uint32_t special = magnitude == format.infinity() ? infinity : quiet_nan;
    bits = magnitude >= format.infinity() ? special : bits;
  } else if (format.special == Format::Special::finite) {
    bits = magnitude == format.nan() ? quiet_nan : bits;
  } else {
    bits = pattern == format.nan() ? quiet_nan : bits;
  }
  return bits_as<float>(bits | sign);
}

/// Returns 2^(pattern - 127), which is what float8_e8m0fnu holds; 255 is NaN.
TRANSHIP_NUMBER float float_of_exponent(std::uint32_t pattern) {
  const std::uint32_t bits = pattern == 0 ? 0x00400000u : pattern << 23;
  return bits_as<float>(pattern == 0xff ? 0x7fc00000u : bits);
}

/// Rounds to a power of two, ties up. What is zero, negative, infinite or NaN becomes NaN.
TRANSHIP_NUMBER std::uint32_t exponent_of(float value) {
  const std::uint32_t bits = bits_as<std::uint32_t>(value);
  constexpr std::uint32_t least = 0x00400000u;  // 2^-127, which is subnormal
  const std::uint32_t rounded = bits == least ? 0 : (bits + 0x400000u) >> 23;
  return bits == 0 || bits >= 0x7f800000u ? 0xffu : rounded;
}

/// Returns the double of a float16, whose NaNs keep their bits.
TRANSHIP_NUMBER double double_of_half(std::uint32_t pattern) {
  const std::uint64_t sign = std::uint64_t{pattern >> 15 & 1} << 63;
  const std::uint64_t magnitude = pattern & 0x7fffu;
  const std::uint64_t normal = (magnitude << 42) + (std::uint64_t{1023 - 15} << 52);
  const double small = static_cast<double>(static_cast<std::int32_t>(magnitude)) * 0x1p-24;
  std::uint64_t bits = magnitude < 0x400 ? bits_as<std::uint64_t>(small) : normal;
  bits = magnitude >= 0x7c00 ? 0x7ff0000000000000u | (magnitude & 0x3ff) << 42 : bits;
  return bits_as<double>(bits | sign);
}

/// Return the other wide type's number. NaNs become quiet and keep what fits of their payload, as
/// x86-64's instructions do; GPUs' do not.
TRANSHIP_NUMBER double widened(float value) {
#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
  return static_cast<double>(value);
#else
  const std::uint32_t bits = bits_as<std::uint32_t>(value);
  const std::uint64_t nan =
      std::uint64_t{bits >> 31} << 63 | 0x7ff8000000000000u | std::uint64_t{bits & 0x7fffffu} << 29;
  return (bits & 0x7fffffffu) > 0x7f800000u ? bits_as<double>(nan) : static_cast<double>(value);
#endif
}
TRANSHIP_NUMBER float narrowed(double value) {
#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
  return static_cast<float>(value);
#else
  const std::uint64_t bits = bits_as<std::uint64_t>(value);
  const auto nan = static_cast<std::uint32_t>(bits >> 63) << 31 | 0x7fc00000u |
                   static_cast<std::uint32_t>(bits >> 29 & 0x7fffffu);
  const bool is_nan = (bits & 0x7fffffffffffffffu) > 0x7ff0000000000000u;
  return is_nan ? bits_as<float>(nan) : static_cast<float>(value);
#endif
}

/// Returns the integer part; the least integer for what `Integer` cannot hold, and for NaN.
template <typename Integer, typename Wide>
TRANSHIP_NUMBER Integer truncated(Wide value) {
  constexpr Wide least = static_cast<Wide>(std::numeric_limits<Integer>::min());
  const bool held = value >= least && value < -least;
  return static_cast<Integer>(held ? value : least);
}

/// Returns what x86-64 gives for a cast to uint64: numbers from 2^63 on are taken less 2^63.
template <typename Wide>
TRANSHIP_NUMBER std::uint64_t truncated_unsigned(Wide value) {
  constexpr Wide half = static_cast<Wide>(0x1p63);
  const bool upper = value >= half;
  const std::int64_t part = truncated<std::int64_t>(upper ? value - half : value);
  return static_cast<std::uint64_t>(part) ^ (upper ? std::uint64_t{1} << 63 : 0);
}

/// Returns the integer of a float or double; other numbers than the target can hold wrap as the
/// casts of NumPy on x86-64 do, which C leaves undefined.
template <typename Integer, typename Wide>
TRANSHIP_NUMBER Integer integer_of(Wide value) {
  if constexpr (sizeof(Integer) <= 2 || std::is_same_v<Integer, std::int32_t>) {
    return static_cast<Integer>(truncated<std::int32_t>(value));
  } else if constexpr (std::is_same_v<Integer, std::uint64_t>) {
    return truncated_unsigned(value);
  } else {
    return static_cast<Integer>(truncated<std::int64_t>(value));
  }
}

/// Returns the integer of a float8, as ml_dtypes does: 0 for NaN, the outermost for infinities.
template <typename Integer>
TRANSHIP_NUMBER Integer integer_of_float8(float value) {
  const Integer finite = integer_of<Integer>(value);
  const Integer outer =
      value < 0 ? std::numeric_limits<Integer>::min() : std::numeric_limits<Integer>::max();
  const std::uint32_t magnitude = bits_as<std::uint32_t>(value) & 0x7fffffffu;
  const Integer special = magnitude == 0x7f800000u ? outer : Integer{0};
  return magnitude >= 0x7f800000u ? special : finite;
}

/// The unsigned integer in which the bits of one part of a number are stored.
template <int bytes>
using Stored = std::conditional_t<
    bytes == 1, std::uint8_t,
    std::conditional_t<bytes == 2, std::uint16_t,
                       std::conditional_t<bytes == 4, std::uint32_t, std::uint64_t>>>;

/// The C++ type of a kind that C++ has; void for the others.
template <NumberKind kind>
struct Native {
  using Type = void;
};
template <>
struct Native<NumberKind::int8> {
  using Type = std::int8_t;
};
template <>
struct Native<NumberKind::int16> {
  using Type = std::int16_t;
};
template <>
struct Native<NumberKind::int32> {
  using Type = std::int32_t;
};
template <>
struct Native<NumberKind::int64> {
  using Type = std::int64_t;
};
template <>
struct Native<NumberKind::uint8> {
  using Type = std::uint8_t;
};
template <>
struct Native<NumberKind::uint16> {
  using Type = std::uint16_t;
};
template <>
struct Native<NumberKind::uint32> {
  using Type = std::uint32_t;
};
template <>
struct Native<NumberKind::uint64> {
  using Type = std::uint64_t;
};
template <>
struct Native<NumberKind::float32> {
  using Type = float;
};
template <>
struct Native<NumberKind::float64> {
  using Type = double;
};

/// What carries the numbers of a kind from its decoding to the target's encoding.
template <NumberKind kind>
struct CarrierOf {
  using Type = float;  // of the formats
};
template <NumberKind kind>
  requires(kind == NumberKind::boolean || kind == NumberKind::int8 || kind == NumberKind::int16 ||
           kind == NumberKind::int32 || kind == NumberKind::uint8 || kind == NumberKind::uint16)
struct CarrierOf<kind> {
  using Type = std::int32_t;
};
template <NumberKind kind>
  requires(kind == NumberKind::int64 || kind == NumberKind::uint32)
struct CarrierOf<kind> {
  using Type = std::int64_t;
};
template <>
struct CarrierOf<NumberKind::uint64> {
  using Type = std::uint64_t;
};
template <>
struct CarrierOf<NumberKind::float64> {
  using Type = double;
};

/// Returns the carrier's value of the stored bits of a real number.
template <NumberKind kind>
TRANSHIP_NUMBER typename CarrierOf<kind>::Type decode(Stored<bytes_of(kind)> stored) {
  using Type = typename Native<kind>::Type;
  if constexpr (kind == NumberKind::boolean) {
    return stored != 0 ? 1 : 0;
  } else if constexpr (kind == NumberKind::float8_e8m0fnu) {
    return float_of_exponent(stored);
  } else if constexpr (std::is_void_v<Type>) {
    return float_of<kind>(stored);
  } else {
    return static_cast<typename CarrierOf<kind>::Type>(bits_as<Type>(stored));
  }
}

/// Where a carrier's values come from, as far as the result depends on it.
enum class Origin {
  any,
  ml_dtypes,  ///< bfloat16: its NaNs have no payload in float16
  float8,     ///< the same, and integers of infinities are the outermost
};

constexpr Origin origin_of(NumberKind kind) {
  if (is_float8(kind)) return Origin::float8;
  return kind == NumberKind::bfloat16 ? Origin::ml_dtypes : Origin::any;
}

/// Returns the stored bits of a carrier's value as a real number of a kind.
template <NumberKind kind, Origin origin, typename Carrier>
TRANSHIP_NUMBER Stored<bytes_of(kind)> encode(Carrier value) {
  using Type = typename Native<kind>::Type;
  using Bits = Stored<bytes_of(kind)>;
  constexpr bool wide = std::is_floating_point_v<Carrier>;
  if constexpr (kind == NumberKind::boolean) {
    return value != 0 ? 1 : 0;
  } else if constexpr (kind == NumberKind::float32) {
    if constexpr (std::is_same_v<Carrier, double>) return bits_as<Bits>(narrowed(value));
    return bits_as<Bits>(static_cast<float>(value));
  } else if constexpr (kind == NumberKind::float64) {
    if constexpr (std::is_same_v<Carrier, float>) return bits_as<Bits>(widened(value));
    return bits_as<Bits>(static_cast<double>(value));
  } else if constexpr (!std::is_void_v<Type>) {
    if constexpr (wide && origin == Origin::float8) {
      return bits_as<Bits>(integer_of_float8<Type>(value));
    } else if constexpr (wide) {
      return bits_as<Bits>(integer_of<Type>(value));
    } else {
      return static_cast<Bits>(value);
    }
  } else if constexpr (kind == NumberKind::float16 && std::is_same_v<Carrier, double>) {
    return static_cast<Bits>(round_to<kind, true>(value));
  } else {
    float rounded;  // ml_dtypes knows float alone, and NumPy converts integers to float first
    if constexpr (std::is_same_v<Carrier, double>) {
      rounded = narrowed(value);
    } else {
      rounded = static_cast<float>(value);
    }
    if constexpr (kind == NumberKind::float8_e8m0fnu) {
      return static_cast<Bits>(exponent_of(rounded));
    } else {
      constexpr bool keeps = kind == NumberKind::float16 && origin == Origin::any;
      return static_cast<Bits>(round_to<kind, keeps>(rounded));
    }
  }
}

}  // namespace tranship::numbers
