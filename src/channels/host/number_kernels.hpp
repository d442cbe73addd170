// Loops that decode and encode numbers that lie one behind the other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "data/number_type.hpp"

namespace tranship::host {

/// Decodes or encodes `count` numbers that follow each other, at any alignment. The ranges must not
/// overlap.
using NumberLoop = void (*)(const std::byte* source, std::byte* target, std::int64_t count);

/// Looks up `count` numbers of one byte in a table of their 256 results: a plane of 256 bytes for
/// each byte of a result.
using TableLoop = void (*)(const std::byte* table, const std::byte* source, std::byte* target,
                           std::int64_t count);

/// What numbers are decoded to before they are encoded.
enum class Carrier : std::uint8_t {
  int32,
  int64,
  uint64,
  float32,
  float64,
  bfloat16,  ///< float32 whose value was a bfloat16
  float8,    ///< float32 whose value was a float8
  half,      ///< float64 whose value was a float16
};
inline constexpr int carriers = 8;

/// Returns the carrier of a conversion between two real kinds.
Carrier carrier_of(NumberKind from, NumberKind to);

/// Returns the kind of a carrier's values, such as float32 for Carrier::float8.
NumberKind kind_of(Carrier carrier);

/// The loops of one instruction set; null for complex kinds.
struct NumberKernels {
  /// By source kind.
  std::array<NumberLoop, number_kinds> decode;
  /// Of float16 to Carrier::half.
  NumberLoop decode_half;
  /// By carrier and target kind.
  std::array<std::array<NumberLoop, number_kinds>, carriers> encode;
  NumberLoop swap2;  ///< reverses the bytes of each two, four or eight
  NumberLoop swap4;
  NumberLoop swap8;
  /// By the bytes of a result; null where decoding and encoding is as fast.
  std::array<TableLoop, 9> look_up;
};

/// Returns the best loops for this processor.
const NumberKernels& number_kernels();

/// Returns the loops of one instruction set ("baseline", "avx2" or "avx512"), for tests; null if
/// the processor or the build lacks it.
const NumberKernels* number_kernels_named(std::string_view name);

}  // namespace tranship::host
