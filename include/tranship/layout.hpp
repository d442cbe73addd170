// Index spaces, fields and layouts: what an array is, and in which order it lies in memory.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "array.h"
#include "error.hpp"

namespace tranship {

/// One dimension of an index space: its name, and its number of indices, counted from 0.
struct Dimension {
  std::string name;
  std::int64_t extent = 0;
};

/// One value of each point: its name, and its type as NumPy writes it, such as "f8".
struct Field {
  std::string name;
  std::string type;
};

/// A half-open range [lower, upper) of a named dimension.
struct Range {
  std::string name;
  std::int64_t lower = 0;
  std::int64_t upper = 0;
};

namespace detail {

template <typename T>
inline constexpr bool is_complex = false;
template <typename T>
inline constexpr bool is_complex<std::complex<T>> = true;

/// The ranges as C has them, valid as long as `ranges`.
inline std::vector<tranship_range> c_ranges(const std::vector<Range>& ranges) {
  std::vector<tranship_range> made;
  for (const Range& range : ranges) made.push_back({range.name.c_str(), range.lower, range.upper});
  return made;
}

}  // namespace detail

/// A type of elements: numbers, complex numbers and bytes.
template <typename T>
concept Element = std::is_arithmetic_v<T> || std::is_same_v<T, std::byte> || detail::is_complex<T>;

/// Returns NumPy's name of an element type: type_name<double>() is "f8".
template <Element T>
constexpr const char* type_name() {
  constexpr std::size_t bytes = sizeof(T);
  if constexpr (std::is_same_v<T, bool>) {
    return "b1";
  } else if constexpr (detail::is_complex<T>) {
    static_assert(bytes == 8 || bytes == 16, "complex numbers of float and double only");
    return bytes == 8 ? "c8" : "c16";
  } else if constexpr (std::is_floating_point_v<T>) {
    return bytes == 4 ? "f4" : bytes == 8 ? "f8" : "f16";
  } else if constexpr (std::is_signed_v<T>) {
    return bytes == 1 ? "i1" : bytes == 2 ? "i2" : bytes == 4 ? "i4" : "i8";
  } else {  // unsigned integers, and std::byte
    return bytes == 1 ? "u1" : bytes == 2 ? "u2" : bytes == 4 ? "u4" : "u8";
  }
}

/// An index space, its fields and the order of both in memory (Isometry, ICS'18, section 2). A
/// value; any thread may read it.
class Layout {
 public:
  /// `order`: terms, fastest first, such as "x:4, F, x, y": x in blocks of four, then the fields F,
  /// then the blocks of x, then y. Empty: the fields fastest, then the last dimension, as an array
  /// of structs in C. What is not usable is refused where the layout is used.
  Layout(std::vector<Dimension> dimensions, std::vector<Field> fields, std::string order = {})
      : dimensions_(std::move(dimensions)), fields_(std::move(fields)), order_(std::move(order)) {}

  const std::vector<Dimension>& dimensions() const noexcept { return dimensions_; }
  const std::vector<Field>& fields() const noexcept { return fields_; }
  const std::string& order() const noexcept { return order_; }

  /// Returns the bytes that an instance of the layout needs, padding of edge blocks included.
  /// @throws InvalidArgument for a name, an extent, a type or an order that is not usable
  std::int64_t bytes() const {
    std::int64_t found = 0;
    with_c([&](const tranship_layout& layout) {
      detail::check(tranship_layout_bytes(&layout, &found));
    });
    return found;
  }

  /// Calls `use` with the layout as C has it, valid during the call.
  template <typename Use>
  void with_c(const Use& use) const {
    std::vector<tranship_dimension> dimensions;
    for (const Dimension& one : dimensions_) dimensions.push_back({one.name.c_str(), one.extent});
    std::vector<tranship_field> fields;
    for (const Field& one : fields_) fields.push_back({one.name.c_str(), one.type.c_str()});
    const tranship_layout layout{dimensions.data(), static_cast<int>(dimensions.size()),
                                 fields.data(), static_cast<int>(fields.size()),
                                 detail::optional_text(order_)};
    use(layout);
  }

 private:
  std::vector<Dimension> dimensions_;
  std::vector<Field> fields_;
  std::string order_;
};

}  // namespace tranship
