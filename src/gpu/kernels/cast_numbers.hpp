// Conversion of a few numbers in registers: all are decoded to a carrier, then all are encoded, so
// that each step has one branch for all of them. The carrier is known when a kernel is compiled,
// and both types when it runs.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "data/number_functions.hpp"
#include "gpu/kernels/cast_plan.hpp"
#include "gpu/kernels/kernel_body.hpp"
#include "gpu/kernels/packed_floats.hpp"

namespace tranship::gpu {

/// What a kernel that converts is compiled for: the carrier, whether the numbers of each side may
/// have 8 bytes, the way that boxes are moved, and the numbers of a run.
template <typename CarrierType, bool wide_source, bool wide_target, CastWay cast_way,
          int numbers_of_run>
struct CastForm {
  using Carrier = CarrierType;
  /// The stored bits of a number of the source, and of the target.
  using Source = std::conditional_t<wide_source, std::uint64_t, std::uint32_t>;
  using Target = std::conditional_t<wide_target, std::uint64_t, std::uint32_t>;
  static constexpr bool is_wide = wide_target;
  static constexpr CastWay way = cast_way;
  static constexpr bool shared = cast_way == CastWay::shared;
  static constexpr int run = numbers_of_run;
  /// The most bytes of a number of the source, and of one of the target.
  static constexpr int source_bytes_max = run == cast_long_run ? 2 : sizeof(Source);
  static constexpr int target_bytes_max = run == cast_long_run ? 2 : 16;
  /// Numbers that a thread holds, and the runs or single numbers that they make up: with shared
  /// memory, as many neighbours along the target's runs.
  static constexpr int held = run > 1 ? held_in_runs(wide_source || wide_target) : 8;
  static constexpr int groups = held / run;
  /// Blocks of a multiprocessor that the registers have to be enough for, as measured on an H200.
  static constexpr int blocks = held == 16 && !(way == CastWay::runs && run == cast_run) ? 5 : 4;
};

/// Returns the carrier's value of a number of one kind; its own carrier's, rounded to float if that
/// is another one.
template <NumberKind kind, typename Carrier, typename Bits>
TRANSHIP_DEVICE Carrier carrier_of(Bits bits) {
  if constexpr (kind == NumberKind::float16 && std::is_same_v<Carrier, double>) {
    return numbers::double_of_half(static_cast<std::uint32_t>(bits));
  } else {
    const auto value = numbers::decode<kind>(static_cast<numbers::Stored<bytes_of(kind)>>(bits));
    if constexpr (kind == NumberKind::float64 && std::is_same_v<Carrier, float>) {
      return numbers::narrowed(value);
    } else {
      return static_cast<Carrier>(value);
    }
  }
}

/// Decodes numbers of one kind, if the carrier takes them.
template <NumberKind kind, int most, typename Carrier, typename Bits, int count>
TRANSHIP_DEVICE void decode_as(const Bits (&bits)[count], Carrier (&values)[count]) {
  using Own = typename numbers::CarrierOf<kind>::Type;
  constexpr bool own = std::is_same_v<Carrier, Own>;
  constexpr bool half = kind == NumberKind::float16 && std::is_same_v<Carrier, double>;
  constexpr bool fits = bytes_of(kind) <= most;
  if constexpr (fits && is_packed(kind) && kind != NumberKind::bfloat16 &&
                std::is_same_v<Carrier, float> && sizeof(Bits) == 4) {
    if (decode_packed<kind>(bits, values)) return;
  }
  if constexpr (fits && (own || half || std::is_same_v<Carrier, float>)) {
    TRANSHIP_UNROLL
    for (int k = 0; k < count; ++k) values[k] = carrier_of<kind, Carrier>(bits[k]);
  }
}

/// Decodes the stored bits of real numbers of a kind that the carrier carries, of at most `most`
/// bytes.
template <int most, typename Carrier, typename Bits, int count>
TRANSHIP_DEVICE void decode_all(NumberKind kind, const Bits (&bits)[count],
                                Carrier (&values)[count]) {
  using Kind = NumberKind;
  switch (kind) {
    case Kind::boolean: return decode_as<Kind::boolean, most>(bits, values);
    case Kind::int8: return decode_as<Kind::int8, most>(bits, values);
    case Kind::int16: return decode_as<Kind::int16, most>(bits, values);
    case Kind::int32: return decode_as<Kind::int32, most>(bits, values);
    case Kind::int64: return decode_as<Kind::int64, most>(bits, values);
    case Kind::uint8: return decode_as<Kind::uint8, most>(bits, values);
    case Kind::uint16: return decode_as<Kind::uint16, most>(bits, values);
    case Kind::uint32: return decode_as<Kind::uint32, most>(bits, values);
    case Kind::uint64: return decode_as<Kind::uint64, most>(bits, values);
    case Kind::float16: return decode_as<Kind::float16, most>(bits, values);
    case Kind::float32: return decode_as<Kind::float32, most>(bits, values);
    case Kind::float64: return decode_as<Kind::float64, most>(bits, values);
    case Kind::bfloat16: return decode_as<Kind::bfloat16, most>(bits, values);
    case Kind::float8_e3m4: return decode_as<Kind::float8_e3m4, most>(bits, values);
    case Kind::float8_e4m3: return decode_as<Kind::float8_e4m3, most>(bits, values);
    case Kind::float8_e4m3b11fnuz: return decode_as<Kind::float8_e4m3b11fnuz, most>(bits, values);
    case Kind::float8_e4m3fn: return decode_as<Kind::float8_e4m3fn, most>(bits, values);
    case Kind::float8_e4m3fnuz: return decode_as<Kind::float8_e4m3fnuz, most>(bits, values);
    case Kind::float8_e5m2: return decode_as<Kind::float8_e5m2, most>(bits, values);
    case Kind::float8_e5m2fnuz: return decode_as<Kind::float8_e5m2fnuz, most>(bits, values);
    case Kind::float8_e8m0fnu: return decode_as<Kind::float8_e8m0fnu, most>(bits, values);
    case Kind::complex64:
    case Kind::complex128: return;  // converted in parts
  }
}

template <NumberKind kind, numbers::Origin origin, typename Carrier, typename Bits, int count>
TRANSHIP_DEVICE void encode_from(const Carrier (&values)[count], Bits (&bits)[count]) {
  TRANSHIP_UNROLL
  for (int k = 0; k < count; ++k) bits[k] = numbers::encode<kind, origin>(values[k]);
}

/// Encodes as one kind. Integers of float8 and float16 of bfloat16 have rules of their own.
template <NumberKind kind, int most, typename Carrier, typename Bits, int count>
TRANSHIP_DEVICE void encode_as(numbers::Origin origin, const Carrier (&values)[count],
                               Bits (&bits)[count]) {
  using numbers::Origin;
  constexpr bool rounds = kind == NumberKind::float16 || kind >= NumberKind::bfloat16;
  constexpr bool takes = !rounds || std::is_same_v<Carrier, float> ||
                         (kind == NumberKind::float16 && std::is_same_v<Carrier, double>);
  if constexpr (takes && bytes_of(kind) <= most && (bytes_of(kind) == 8) == (sizeof(Bits) == 8)) {
    if constexpr (is_packed(kind) && std::is_same_v<Carrier, float>) {
      if (encode_packed<kind>(values, bits)) return;
    }
    if constexpr (std::is_same_v<Carrier, float>) {
      constexpr bool integer = kind >= NumberKind::int8 && kind <= NumberKind::uint64;
      if (integer && origin == Origin::float8) {
        return encode_from<kind, Origin::float8>(values, bits);
      }
      if (kind == NumberKind::float16 && origin != Origin::any) {
        return encode_from<kind, Origin::ml_dtypes>(values, bits);
      }
    }
    encode_from<kind, Origin::any>(values, bits);
  }
}

/// Encodes the carrier's values as real numbers of a kind, of at most `most` bytes.
template <int most, typename Carrier, typename Bits, int count>
TRANSHIP_DEVICE void encode_all(NumberKind kind, numbers::Origin origin,
                                const Carrier (&values)[count], Bits (&bits)[count]) {
  using Kind = NumberKind;
  switch (kind) {
    case Kind::boolean: return encode_as<Kind::boolean, most>(origin, values, bits);
    case Kind::int8: return encode_as<Kind::int8, most>(origin, values, bits);
    case Kind::int16: return encode_as<Kind::int16, most>(origin, values, bits);
    case Kind::int32: return encode_as<Kind::int32, most>(origin, values, bits);
    case Kind::int64: return encode_as<Kind::int64, most>(origin, values, bits);
    case Kind::uint8: return encode_as<Kind::uint8, most>(origin, values, bits);
    case Kind::uint16: return encode_as<Kind::uint16, most>(origin, values, bits);
    case Kind::uint32: return encode_as<Kind::uint32, most>(origin, values, bits);
    case Kind::uint64: return encode_as<Kind::uint64, most>(origin, values, bits);
    case Kind::float16: return encode_as<Kind::float16, most>(origin, values, bits);
    case Kind::float32: return encode_as<Kind::float32, most>(origin, values, bits);
    case Kind::float64: return encode_as<Kind::float64, most>(origin, values, bits);
    case Kind::bfloat16: return encode_as<Kind::bfloat16, most>(origin, values, bits);
    case Kind::float8_e3m4: return encode_as<Kind::float8_e3m4, most>(origin, values, bits);
    case Kind::float8_e4m3: return encode_as<Kind::float8_e4m3, most>(origin, values, bits);
    case Kind::float8_e4m3b11fnuz:
      return encode_as<Kind::float8_e4m3b11fnuz, most>(origin, values, bits);
    case Kind::float8_e4m3fn: return encode_as<Kind::float8_e4m3fn, most>(origin, values, bits);
    case Kind::float8_e4m3fnuz: return encode_as<Kind::float8_e4m3fnuz, most>(origin, values, bits);
    case Kind::float8_e5m2: return encode_as<Kind::float8_e5m2, most>(origin, values, bits);
    case Kind::float8_e5m2fnuz: return encode_as<Kind::float8_e5m2fnuz, most>(origin, values, bits);
    case Kind::float8_e8m0fnu: return encode_as<Kind::float8_e8m0fnu, most>(origin, values, bits);
    case Kind::complex64:
    case Kind::complex128: return;  // converted in parts
  }
}

/// Returns the low `bytes` bytes, 1 to 4, in reverse order.
TRANSHIP_DEVICE std::uint32_t reversed(std::uint32_t bits, int bytes) {
#ifdef __CUDA_ARCH__
  return bytes == 4   ? __byte_perm(bits, 0, 0x0123)
         : bytes == 2 ? __byte_perm(bits, 0, 0x4401)
                      : bits;
#else
  if (bytes == 4) return __builtin_bswap32(bits);
  return bytes == 2 ? __builtin_bswap16(static_cast<std::uint16_t>(bits)) : bits;
#endif
}

/// Returns the low `bytes` bytes, 1 to 8, in reverse order.
TRANSHIP_DEVICE std::uint64_t reversed(std::uint64_t bits, int bytes) {
  const auto low = static_cast<std::uint32_t>(bits);
  if (bytes < 8) return reversed(low, bytes);
  const auto high = static_cast<std::uint32_t>(bits >> 32);
  return std::uint64_t{reversed(low, 4)} << 32 | reversed(high, 4);
}

template <typename Bits, int count>
TRANSHIP_DEVICE void reverse_all(NumberKind kind, Bits (&bits)[count]) {
  const auto bytes = static_cast<int>(bytes_of(kind));
  TRANSHIP_UNROLL
  for (int k = 0; k < count; ++k) bits[k] = reversed(bits[k], bytes);
}

/// Converts stored bits of the source's type, in its byte order, to those of the target's.
template <typename Form>
TRANSHIP_DEVICE void cast_numbers(const CastPlan& plan, typename Form::Source (&source)[Form::held],
                                  typename Form::Target (&target)[Form::held]) {
  if (plan.from_swapped) reverse_all(plan.from, source);
  if (plan.from == plan.to && !plan.either_part) {
    TRANSHIP_UNROLL
    for (int k = 0; k < Form::held; ++k) {
      target[k] = static_cast<typename Form::Target>(source[k]);
    }
  } else {
    typename Form::Carrier values[Form::held] = {};
    decode_all<Form::source_bytes_max>(plan.from, source, values);
    encode_all<Form::target_bytes_max>(plan.to, numbers::origin_of(plan.from), values, target);
  }
  if (plan.to_swapped) reverse_all(plan.to, target);
}

/// Returns what `call.template with<Form>()` returns for the form of a plan's kernel.
template <typename Carrier, bool wide_source, bool wide_target, typename Call>
auto select_way(const CastPlan& plan, const Call& call) {
  const auto with = [&]<CastWay way, int run>() {
    return call.template with<CastForm<Carrier, wide_source, wide_target, way, run>>();
  };
  if constexpr (!wide_source && !wide_target) {
    if (plan.run == cast_long_run) {
      return with.template operator()<CastWay::runs, cast_long_run>();
    }
  }
  switch (plan.way) {
    case CastWay::runs: return with.template operator()<CastWay::runs, cast_run>();
    case CastWay::shared: return with.template operator()<CastWay::shared, cast_run>();
    case CastWay::singles: break;
  }
  return with.template operator()<CastWay::singles, 1>();
}

template <typename Carrier, bool wide_source, typename Call>
auto select_target(const CastPlan& plan, const Call& call) {
  return bytes_of(plan.to) == 8 ? select_way<Carrier, wide_source, true>(plan, call)
                                : select_way<Carrier, wide_source, false>(plan, call);
}

template <typename Call>
auto select_cast(const CastPlan& plan, const Call& call) {
  switch (cast_carrier(plan.from, plan.to)) {
    case CastCarrier::int32: return select_target<std::int32_t, false>(plan, call);
    case CastCarrier::int64: return select_target<std::int64_t, true>(plan, call);
    case CastCarrier::uint64: return select_target<std::uint64_t, true>(plan, call);
    case CastCarrier::float64: return select_target<double, true>(plan, call);
    case CastCarrier::float32: break;
  }
  if (bytes_of(plan.from) == 8) return select_way<float, true, false>(plan, call);
  return select_target<float, false>(plan, call);
}

}  // namespace tranship::gpu
