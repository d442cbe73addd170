// Types of numbers that a copy converts, and which conversions NumPy's casting rules allow.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace tranship {

/// What the bits of a number mean. The kinds follow NumPy's and ml_dtypes' names.
enum class NumberKind : std::uint8_t {
  boolean,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  float32,
  float64,
  complex64,
  complex128,
  bfloat16,
  float8_e3m4,
  float8_e4m3,
  float8_e4m3b11fnuz,
  float8_e4m3fn,
  float8_e4m3fnuz,
  float8_e5m2,
  float8_e5m2fnuz,
  float8_e8m0fnu,
};

inline constexpr int number_kinds = 23;

/// Returns the bytes of one number.
constexpr std::int64_t bytes_of(NumberKind kind) {
  switch (kind) {
    case NumberKind::int16:
    case NumberKind::uint16:
    case NumberKind::float16:
    case NumberKind::bfloat16: return 2;
    case NumberKind::int32:
    case NumberKind::uint32:
    case NumberKind::float32: return 4;
    case NumberKind::int64:
    case NumberKind::uint64:
    case NumberKind::float64:
    case NumberKind::complex64: return 8;
    case NumberKind::complex128: return 16;
    default: return 1;
  }
}

constexpr bool is_complex(NumberKind kind) {
  return kind == NumberKind::complex64 || kind == NumberKind::complex128;
}

/// Returns the kind of both parts of a complex number; of a real one its own.
constexpr NumberKind part_of(NumberKind kind) {
  if (kind == NumberKind::complex64) return NumberKind::float32;
  return kind == NumberKind::complex128 ? NumberKind::float64 : kind;
}

/// Whether it is one of ml_dtypes' float8 kinds.
constexpr bool is_float8(NumberKind kind) { return kind >= NumberKind::float8_e3m4; }

/// A number in memory: its kind and its byte order.
struct NumberType {
  NumberKind kind = NumberKind::boolean;
  bool big_endian = false;  ///< of each part of a complex number

  bool operator==(const NumberType&) const = default;
};

/// Returns the type of numbers that a field's text names, such as "f4", ">i2" or "bfloat16";
/// nothing if its elements are not numbers of these kinds.
std::optional<NumberType> number_type_from(std::string_view text);

/// Which changes of type a copy may make: NumPy's rules of that name.
enum class Casting : std::uint8_t {
  none,       ///< no change
  safe,       ///< only to types that hold all values of the source's
  same_kind,  ///< also to narrower types of the same kind, such as float64 to float32
  unsafe,     ///< any for which there is a conversion
};

/// Returns the rule of that name: "safe", "same_kind" or "unsafe".
/// @error invalid_argument if there is none
Result<Casting> casting_from(std::string_view text);

/// Returns the name of the rule, such as "same_kind"; "no" for Casting::none.
const char* to_string(Casting casting);

/// Returns whether the rule allows the conversion, as numpy.can_cast() does with ml_dtypes.
bool can_cast(NumberKind from, NumberKind to, Casting casting);

/// What happens to each number of a loop nest on its way. By default nothing.
struct Conversion {
  NumberType from;
  NumberType to;

  /// Whether the numbers change. Equal types mean a plain copy.
  explicit operator bool() const { return !(from == to); }
  bool operator==(const Conversion&) const = default;

  std::int64_t source_bytes() const { return bytes_of(from.kind); }
  std::int64_t target_bytes() const { return bytes_of(to.kind); }
};

}  // namespace tranship
