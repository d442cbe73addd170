// Conversion of a few numbers between any two types, in registers: first all are decoded to a
// carrier, then all are encoded, so that each step has one branch for all of them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "data/number_functions.hpp"
#include "gpu/kernels/kernel_body.hpp"

namespace tranship::gpu {

/// The stored bits of some numbers, or their carriers' values: real and imaginary parts.
template <int count>
struct Parts {
  std::uint64_t real[count];
  std::uint64_t imaginary[count];
};

/// How the values of Parts are to be read.
enum class CarrierType : std::uint8_t { int32, int64, uint64, float32, float64 };

template <typename Value>
TRANSHIP_DEVICE std::uint64_t to_bits(Value value) {
  if constexpr (sizeof(Value) == 8) {
    return numbers::bits_as<std::uint64_t>(value);
  } else {
    return numbers::bits_as<std::uint32_t>(value);
  }
}

template <typename Value>
TRANSHIP_DEVICE Value from_bits(std::uint64_t bits) {
  if constexpr (sizeof(Value) == 8) {
    return numbers::bits_as<Value>(bits);
  } else {
    return numbers::bits_as<Value>(static_cast<std::uint32_t>(bits));
  }
}

template <typename Value>
constexpr CarrierType carrier_type() {
  if constexpr (std::is_same_v<Value, std::int32_t>) return CarrierType::int32;
  if constexpr (std::is_same_v<Value, std::int64_t>) return CarrierType::int64;
  if constexpr (std::is_same_v<Value, std::uint64_t>) return CarrierType::uint64;
  return std::is_same_v<Value, float> ? CarrierType::float32 : CarrierType::float64;
}

template <NumberKind kind, int count>
TRANSHIP_DEVICE CarrierType decode_as(std::uint64_t (&bits)[count]) {
  using Value = typename numbers::CarrierOf<kind>::Type;
  TRANSHIP_UNROLL
  for (int k = 0; k < count; ++k) {
    bits[k] = to_bits(numbers::decode<kind>(static_cast<numbers::Stored<bytes_of(kind)>>(bits[k])));
  }
  return carrier_type<Value>();
}

/// Replaces the stored bits of real numbers by their carrier's values.
template <int count>
TRANSHIP_DEVICE CarrierType decode_all(NumberKind kind, NumberKind to,
                                       std::uint64_t (&bits)[count]) {
  using Kind = NumberKind;
  switch (kind) {
    case Kind::boolean: return decode_as<Kind::boolean>(bits);
    case Kind::int8: return decode_as<Kind::int8>(bits);
    case Kind::int16: return decode_as<Kind::int16>(bits);
    case Kind::int32: return decode_as<Kind::int32>(bits);
    case Kind::int64: return decode_as<Kind::int64>(bits);
    case Kind::uint8: return decode_as<Kind::uint8>(bits);
    case Kind::uint16: return decode_as<Kind::uint16>(bits);
    case Kind::uint32: return decode_as<Kind::uint32>(bits);
    case Kind::uint64: return decode_as<Kind::uint64>(bits);
    case Kind::float16:
      if (to != Kind::float64) return decode_as<Kind::float16>(bits);
      TRANSHIP_UNROLL
      for (int k = 0; k < count; ++k) {
        bits[k] = to_bits(numbers::double_of_half(static_cast<std::uint32_t>(bits[k])));
      }
      return CarrierType::float64;
    case Kind::float32:
    case Kind::complex64: return decode_as<Kind::float32>(bits);
    case Kind::float64:
    case Kind::complex128: return decode_as<Kind::float64>(bits);
    case Kind::bfloat16: return decode_as<Kind::bfloat16>(bits);
    case Kind::float8_e3m4: return decode_as<Kind::float8_e3m4>(bits);
    case Kind::float8_e4m3: return decode_as<Kind::float8_e4m3>(bits);
    case Kind::float8_e4m3b11fnuz: return decode_as<Kind::float8_e4m3b11fnuz>(bits);
    case Kind::float8_e4m3fn: return decode_as<Kind::float8_e4m3fn>(bits);
    case Kind::float8_e4m3fnuz: return decode_as<Kind::float8_e4m3fnuz>(bits);
    case Kind::float8_e5m2: return decode_as<Kind::float8_e5m2>(bits);
    case Kind::float8_e5m2fnuz: return decode_as<Kind::float8_e5m2fnuz>(bits);
    case Kind::float8_e8m0fnu: return decode_as<Kind::float8_e8m0fnu>(bits);
  }
  return CarrierType::int32;
}

template <NumberKind kind, numbers::Origin origin, typename Value, int count>
TRANSHIP_DEVICE void encode_as(std::uint64_t (&bits)[count]) {
  TRANSHIP_UNROLL
  for (int k = 0; k < count; ++k) {
    bits[k] = numbers::encode<kind, origin>(from_bits<Value>(bits[k]));
  }
}

/// Does the same for integers and float16, whose results depend on the source's kind.
template <NumberKind kind, int count>
TRANSHIP_DEVICE void encode_floats(numbers::Origin origin, std::uint64_t (&bits)[count]) {
  if (origin == numbers::Origin::float8) {
    encode_as<kind, numbers::Origin::float8, float>(bits);
  } else if (kind == NumberKind::float16 && origin == numbers::Origin::ml_dtypes) {
    encode_as<kind, numbers::Origin::ml_dtypes, float>(bits);
  } else {
    encode_as<kind, numbers::Origin::any, float>(bits);
  }
}

template <NumberKind kind, int count>
TRANSHIP_DEVICE void encode_from(CarrierType carrier, numbers::Origin origin,
                                 std::uint64_t (&bits)[count]) {
  constexpr auto any = numbers::Origin::any;
  switch (carrier) {
    case CarrierType::int32: return encode_as<kind, any, std::int32_t>(bits);
    case CarrierType::int64: return encode_as<kind, any, std::int64_t>(bits);
    case CarrierType::uint64: return encode_as<kind, any, std::uint64_t>(bits);
    case CarrierType::float32: return encode_floats<kind>(origin, bits);
    case CarrierType::float64: return encode_as<kind, any, double>(bits);
  }
}

/// Replaces the carrier's values by the stored bits of real numbers.
template <int count>
TRANSHIP_DEVICE void encode_all(NumberKind kind, CarrierType carrier, numbers::Origin origin,
                                std::uint64_t (&bits)[count]) {
  using Kind = NumberKind;
  switch (kind) {
    case Kind::boolean: return encode_from<Kind::boolean>(carrier, origin, bits);
    case Kind::int8: return encode_from<Kind::int8>(carrier, origin, bits);
    case Kind::int16: return encode_from<Kind::int16>(carrier, origin, bits);
    case Kind::int32: return encode_from<Kind::int32>(carrier, origin, bits);
    case Kind::int64: return encode_from<Kind::int64>(carrier, origin, bits);
    case Kind::uint8: return encode_from<Kind::uint8>(carrier, origin, bits);
    case Kind::uint16: return encode_from<Kind::uint16>(carrier, origin, bits);
    case Kind::uint32: return encode_from<Kind::uint32>(carrier, origin, bits);
    case Kind::uint64: return encode_from<Kind::uint64>(carrier, origin, bits);
    case Kind::float16: return encode_from<Kind::float16>(carrier, origin, bits);
    case Kind::float32:
    case Kind::complex64: return encode_from<Kind::float32>(carrier, origin, bits);
    case Kind::float64:
    case Kind::complex128: return encode_from<Kind::float64>(carrier, origin, bits);
    case Kind::bfloat16: return encode_from<Kind::bfloat16>(carrier, origin, bits);
    case Kind::float8_e3m4: return encode_from<Kind::float8_e3m4>(carrier, origin, bits);
    case Kind::float8_e4m3: return encode_from<Kind::float8_e4m3>(carrier, origin, bits);
    case Kind::float8_e4m3b11fnuz:
      return encode_from<Kind::float8_e4m3b11fnuz>(carrier, origin, bits);
    case Kind::float8_e4m3fn: return encode_from<Kind::float8_e4m3fn>(carrier, origin, bits);
    case Kind::float8_e4m3fnuz: return encode_from<Kind::float8_e4m3fnuz>(carrier, origin, bits);
    case Kind::float8_e5m2: return encode_from<Kind::float8_e5m2>(carrier, origin, bits);
    case Kind::float8_e5m2fnuz: return encode_from<Kind::float8_e5m2fnuz>(carrier, origin, bits);
    case Kind::float8_e8m0fnu: return encode_from<Kind::float8_e8m0fnu>(carrier, origin, bits);
  }
}

/// Returns the kind of each part of a number.
TRANSHIP_DEVICE NumberKind part_of(NumberKind kind) {
  if (kind == NumberKind::complex64) return NumberKind::float32;
  return kind == NumberKind::complex128 ? NumberKind::float64 : kind;
}

/// Returns the low `bytes` bytes in reverse order.
TRANSHIP_DEVICE std::uint64_t reversed(std::uint64_t bits, int bytes) {
  std::uint64_t result = 0;
  for (int k = 0; k < bytes; ++k) {
    result = result << 8 | (bits & 0xff);
    bits >>= 8;
  }
  return result;
}

/// Replaces stored bits of the source's type by stored bits of the target's.
template <int count>
TRANSHIP_DEVICE void cast_numbers(const Conversion& conversion, Parts<count>& parts) {
  const NumberKind from = conversion.from.kind;
  const NumberKind to = conversion.to.kind;
  const auto from_bytes = static_cast<int>(bytes_of(part_of(from)));
  const auto to_bytes = static_cast<int>(bytes_of(part_of(to)));
  const bool both_parts = is_complex(from);
  if (conversion.from.big_endian) {
    TRANSHIP_UNROLL
    for (int k = 0; k < count; ++k) {
      parts.real[k] = reversed(parts.real[k], from_bytes);
      if (both_parts) parts.imaginary[k] = reversed(parts.imaginary[k], from_bytes);
    }
  }
  if (from != to) {
    const numbers::Origin origin = numbers::origin_of(from);
    const CarrierType carrier = decode_all(from, part_of(to), parts.real);
    encode_all(to, carrier, origin, parts.real);
    if (both_parts && (is_complex(to) || to == NumberKind::boolean)) {
      (void)decode_all(from, part_of(to), parts.imaginary);
      encode_all(to, carrier, origin, parts.imaginary);
    }
    TRANSHIP_UNROLL
    for (int k = 0; k < count; ++k) {
      if (both_parts && to == NumberKind::boolean) parts.real[k] |= parts.imaginary[k];
      if (!both_parts) parts.imaginary[k] = 0;
    }
  }
  if (conversion.to.big_endian) {
    TRANSHIP_UNROLL
    for (int k = 0; k < count; ++k) {
      parts.real[k] = reversed(parts.real[k], to_bytes);
      parts.imaginary[k] = reversed(parts.imaginary[k], to_bytes);
    }
  }
}

}  // namespace tranship::gpu
