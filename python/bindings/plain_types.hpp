// Short packs and unpacks of NumPy arrays, without the checks and plans of other copies.
#pragma once

#include <cstdint>

#include "bindings.hpp"

namespace tranship::python {

/// Packs one item of a type from a NumPy array to another, or unpacks it, if both are contiguous
/// and the copy is so short that it may hold the interpreter's lock. The type's list is made ready
/// at the first call, and remembered. Returns false, with nothing done, for anything else, and for
/// what is to be refused: the usual way says why. array_bytes, packed_bytes: Sizes of the arrays.
bool pack_now(const Engine& engine, nb::handle array, std::int64_t array_bytes,
              const Datatype& type, nb::handle packed, std::int64_t packed_bytes, bool unpacks);

}  // namespace tranship::python
