// Copies of NumPy arrays that are found again by what NumPy says of the arrays.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "copies.hpp"
#include "numpy_array.hpp"

namespace tranship::python {

/// A short copy within memory that a copy before has checked and planned.
struct PlainCopy {
  /// Valid until another copy is added; null: the copy is not known.
  const std::shared_ptr<const Plan>* plan = nullptr;
  const std::byte* source = nullptr;
  std::byte* target = nullptr;
};

/// Remembers recent short copies between NumPy arrays, so that copies of the same shapes, strides
/// and types need no description of their arrays, no checks but for overlap, and no query of a
/// plan: these cost several times what the copy itself does. The caller holds the interpreter's
/// lock.
class PlainCopies {
 public:
  /// Returns the copy of one array to another; nothing if it is not known, or the memory between
  /// their first and last bytes overlaps.
  static PlainCopy find(const Engine& engine, nb::handle source, nb::handle target);
  /// Remembers how an engine carried a copy between plain arrays; ends: The arrays as the engine
  /// got them.
  static void add(const Engine& engine, nb::handle source, nb::handle target, const CopyPair& ends,
                  const std::shared_ptr<const Plan>& plan);
};

}  // namespace tranship::python
