#include "channels/host/number_kernels.hpp"

#include <cstring>
#include <utility>

#include "channels/host/kernels_x86.hpp"
#include "channels/host/number_kernels_x86.hpp"
#include "data/number_functions.hpp"

namespace tranship::host {
namespace {

using numbers::Origin;
using numbers::Stored;

template <typename Value>
TRANSHIP_NUMBER Value load(const std::byte* source, std::int64_t number) {
  Value value;
  std::memcpy(&value, source + number * static_cast<std::int64_t>(sizeof(Value)), sizeof(Value));
  return value;
}

template <typename Value>
TRANSHIP_NUMBER void store(std::byte* target, std::int64_t number, Value value) {
  std::memcpy(target + number * static_cast<std::int64_t>(sizeof(Value)), &value, sizeof(Value));
}

template <NumberKind kind>
struct Decode {
  TRANSHIP_NUMBER static void one(const std::byte* source, std::byte* target, std::int64_t k) {
    store(target, k, numbers::decode<kind>(load<Stored<bytes_of(kind)>>(source, k)));
  }
};

struct DecodeHalf {
  TRANSHIP_NUMBER static void one(const std::byte* source, std::byte* target, std::int64_t k) {
    store(target, k, numbers::double_of_half(load<std::uint16_t>(source, k)));
  }
};

template <NumberKind kind, Origin origin, typename Value>
struct Encode {
  TRANSHIP_NUMBER static void one(const std::byte* source, std::byte* target, std::int64_t k) {
    store(target, k, numbers::encode<kind, origin>(load<Value>(source, k)));
  }
};

template <typename Word>
struct Swap {
  TRANSHIP_NUMBER static void one(const std::byte* source, std::byte* target, std::int64_t k) {
    const Word word = load<Word>(source, k);
    if constexpr (sizeof(Word) == 2) {
      store<Word>(target, k, __builtin_bswap16(word));
    } else if constexpr (sizeof(Word) == 4) {
      store<Word>(target, k, __builtin_bswap32(word));
    } else {
      store<Word>(target, k, __builtin_bswap64(word));
    }
  }
};

/// Plain loops, for the instruction set that the whole program is compiled for.
struct Baseline {
  template <typename Body>
  static void loop(const std::byte* __restrict source, std::byte* __restrict target,
                   std::int64_t count) {
    for (std::int64_t k = 0; k < count; ++k) Body::one(source, target, k);
  }
};

#if defined(__x86_64__)
/// The loops above, compiled for vectors of 32 bytes.
struct Avx2 {
  template <typename Body>
  __attribute__((target("avx2"))) static void loop(const std::byte* __restrict source,
                                                   std::byte* __restrict target,
                                                   std::int64_t count) {
    for (std::int64_t k = 0; k < count; ++k) Body::one(source, target, k);
  }
};

/// The loops above with the instructions of AVX-512, which convert 64-bit integers as well.
struct Avx512 {
  template <typename Body>
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) static void loop(
      const std::byte* __restrict source, std::byte* __restrict target, std::int64_t count) {
    for (std::int64_t k = 0; k < count; ++k) Body::one(source, target, k);
  }
};
#endif

template <typename Set, NumberKind kind>
constexpr NumberLoop decoder() {
  if constexpr (is_complex(kind)) {
    return nullptr;
  } else {
    return &Set::template loop<Decode<kind>>;
  }
}

/// Whether another origin changes how this kind is encoded; else the loops are shared.
constexpr Origin origin_for(NumberKind kind, Origin origin) {
  const bool of_integers = kind >= NumberKind::int8 && kind <= NumberKind::uint64;
  if (kind == NumberKind::float16 && origin != Origin::any) return Origin::ml_dtypes;
  return of_integers && origin == Origin::float8 ? origin : Origin::any;
}

template <typename Set, typename Value, Origin origin, NumberKind kind>
constexpr NumberLoop encoder() {
  if constexpr (is_complex(kind)) {
    return nullptr;
  } else {
    return &Set::template loop<Encode<kind, origin_for(kind, origin), Value>>;
  }
}

template <typename Set, typename Value, Origin origin, std::size_t... kinds>
constexpr std::array<NumberLoop, number_kinds> encoders(std::index_sequence<kinds...>) {
  return {encoder<Set, Value, origin, static_cast<NumberKind>(kinds)>()...};
}

template <typename Set, std::size_t... kinds>
constexpr NumberKernels kernels_of(std::index_sequence<kinds...> all) {
  return {
      {decoder<Set, static_cast<NumberKind>(kinds)>()...},
      &Set::template loop<DecodeHalf>,
      {encoders<Set, std::int32_t, Origin::any>(all), encoders<Set, std::int64_t, Origin::any>(all),
       encoders<Set, std::uint64_t, Origin::any>(all), encoders<Set, float, Origin::any>(all),
       encoders<Set, double, Origin::any>(all), encoders<Set, float, Origin::ml_dtypes>(all),
       encoders<Set, float, Origin::float8>(all), encoders<Set, double, Origin::any>(all)},
      &Set::template loop<Swap<std::uint16_t>>,
      &Set::template loop<Swap<std::uint32_t>>,
      &Set::template loop<Swap<std::uint64_t>>,
      {}};
}

using AllKinds = std::make_index_sequence<number_kinds>;

#if defined(__x86_64__)
NumberKernels avx2_set() {
  NumberKernels set = kernels_of<Avx2>(AllKinds{});
  if (has_f16c()) use_floats_f16c(set);
  return set;
}

NumberKernels avx512_set() {
  NumberKernels set = kernels_of<Avx512>(AllKinds{});
  use_floats_avx512(set);
  if (has_vbmi()) use_tables_vbmi(set);
  return set;
}
#endif

NumberKernels best_number_kernels() {
#if defined(__x86_64__)
  if (has_avx512()) return avx512_set();
  if (has_avx2()) return avx2_set();
#endif
  return kernels_of<Baseline>(AllKinds{});
}

}  // namespace

Carrier carrier_of(NumberKind from, NumberKind to) {
  switch (from) {
    case NumberKind::boolean:
    case NumberKind::int8:
    case NumberKind::int16:
    case NumberKind::int32:
    case NumberKind::uint8:
    case NumberKind::uint16: return Carrier::int32;
    case NumberKind::int64:
    case NumberKind::uint32: return Carrier::int64;
    case NumberKind::uint64: return Carrier::uint64;
    case NumberKind::float16: return to == NumberKind::float64 ? Carrier::half : Carrier::float32;
    case NumberKind::float64: return Carrier::float64;
    case NumberKind::bfloat16: return Carrier::bfloat16;
    default: return is_float8(from) ? Carrier::float8 : Carrier::float32;
  }
}

NumberKind kind_of(Carrier carrier) {
  switch (carrier) {
    case Carrier::int32: return NumberKind::int32;
    case Carrier::int64: return NumberKind::int64;
    case Carrier::uint64: return NumberKind::uint64;
    case Carrier::float64:
    case Carrier::half: return NumberKind::float64;
    default: return NumberKind::float32;
  }
}

const NumberKernels& number_kernels() {
  static const NumberKernels best = best_number_kernels();
  return best;
}

const NumberKernels* number_kernels_named(std::string_view name) {
  static const NumberKernels baseline = kernels_of<Baseline>(AllKinds{});
  if (name == "baseline") return &baseline;
#if defined(__x86_64__)
  static const NumberKernels avx2 = has_avx2() ? avx2_set() : baseline;
  static const NumberKernels avx512 = has_avx512() ? avx512_set() : baseline;
  if (name == "avx2" && has_avx2()) return &avx2;
  if (name == "avx512" && has_avx512()) return &avx512;
#endif
  return nullptr;
}

}  // namespace tranship::host
