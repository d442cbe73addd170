// Lists of integers that Python hands over with a copy.
#pragma once

#include <nanobind/ndarray.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "bindings.hpp"

namespace tranship::python {

using Indices = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// Lists of 64-bit integers of one call, which the caller leaves as they are until it ends.
class IntegerLists {
 public:
  /// given: Up to three. NumPy's arrays of 64-bit integers are read where they lie; of anything
  /// else the function `converter` of tranship.arguments makes such arrays.
  /// @throws what that function raises
  IntegerLists(std::initializer_list<nb::handle> given, const char* converter);

  std::span<const std::int64_t> operator[](std::size_t number) const { return lists_[number]; }

 private:
  bool read(std::initializer_list<nb::handle> given);

  std::array<std::span<const std::int64_t>, 3> lists_;
  std::array<Indices, 3> converted_;
};

}  // namespace tranship::python
