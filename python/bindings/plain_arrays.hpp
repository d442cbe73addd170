// Arrays as their libraries describe them.
#pragma once

#include "bindings.hpp"
#include "engine/recipe/recipe_key.hpp"
#include "exchange_table.hpp"

namespace tranship::python {

/// An array, and room for a shape and strides that its library has in another form.
struct ReadArray : PlainArray {
  ReadArray() {}  // the room is not set to zeros: lists have thousands of arrays
  Point own_shape;
  Point own_strides;
};

/// Describes a NumPy array. Returns false for any other object, and for arrays whose element types
/// are not known, that are empty or that cannot be written but should be.
bool read_numpy(nb::handle object, bool writable, PlainArray& array);

/// What gives the current stream of the library that made a GPU's array.
struct StreamAsked {
  const ExchangeTable* table = nullptr;
  PyTypeObject* type = nullptr;  ///< of CuPy's arrays; null with a table, and for own arrays
  bool operator==(const StreamAsked&) const = default;
};

/// Describes an array on a GPU: a tensor with DLPack's C exchange table, one of CuPy's, or one that
/// an engine has allocated. The description is valid until code of the array's library runs.
/// Returns false for any other object, and for a tensor that needs the checks of array_of().
bool read_gpu_array(nb::handle object, bool writable, ReadArray& array, StreamAsked& asked);

/// Returns the stream in which the library of an array works on a GPU now; nothing if it has none,
/// or does not say.
std::optional<std::uintptr_t> current_stream(const StreamAsked& asked, nb::handle array,
                                             int device);

/// Returns the bytes of an array whose elements fill one block in C order; 0 for any other array.
std::int64_t block_bytes(const PlainArray& array);

}  // namespace tranship::python
