// The sequence of elements of a type, without their places.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/error.hpp"

namespace tranship {

/// One element that a type is built of, such as a double. Its type is written as NumPy writes it: a
/// letter and the number of bytes; `>` before it if its bytes are swapped, and behind it, in
/// brackets, the unit of times or the name of a type that NumPy does not have.
struct Element {
  char kind = 'V';  ///< 'i', 'u', 'f', 'c', 'b', 'S', 'U', 'M', 'm', or 'V' for raw bytes
  std::int64_t bytes = 1;
  std::int64_t alignment = 1;  ///< in a C structure
  std::uint64_t rest = 0;      ///< tells byte orders, units and names apart

  /// Reads "f8", "c16", "V3", ">i4", "M8[ns]" and so on.
  /// @error invalid_argument if the text is no such type
  static Result<Element> parse(const std::string& type);
};

/// Tells the sequences of elements of two types apart, whatever their length: two sums modulo
/// 2^61 - 1. Law: the signature of a sequence depends on its elements and their order alone, so
/// that it does not matter how the type was built; different sequences have equal signatures with a
/// probability of some 2^-118. Raw bytes count one by one: "V3" is three times "V1".
class Signature {
 public:
  Signature() = default;  ///< of no elements
  static Signature of(const Element& element);

  /// Returns that of one sequence behind the other.
  Signature followed_by(const Signature& other) const;
  /// Returns that of the sequence, `count` times. Takes some 2 log2(count) steps.
  Signature repeated(std::int64_t count) const;

  std::int64_t elements() const { return elements_; }
  bool raw() const { return raw_; }  ///< all elements are raw bytes
  bool operator==(const Signature&) const = default;

 private:
  std::int64_t elements_ = 0;
  bool raw_ = true;
  std::array<std::uint64_t, 2> sum_{};
  std::array<std::uint64_t, 2> power_{1, 1};  ///< of each base, to the number of elements
};

}  // namespace tranship
