// Arrays as their libraries describe them.
#pragma once

#include "bindings.hpp"
#include "engine/recipe/recipe_key.hpp"
#include "exchange_table.hpp"

namespace tranship::python {

/// Describes a NumPy array. Returns false for any other object, and for arrays whose element types
/// are not known, that are empty or that cannot be written but should be.
bool read_numpy(nb::handle object, bool writable, PlainArray& array);

/// Describes a tensor on a GPU through DLPack's C exchange table. The description is valid until
/// code of the tensor's library runs. Returns false for any other object, and for a tensor that
/// needs the checks of array_of(). table: Set to that of its library.
bool read_gpu_tensor(nb::handle object, bool writable, PlainArray& array,
                     const ExchangeTable*& table);

/// Returns the bytes of an array whose elements fill one block in the order of its dimensions; 0 of
/// any other.
std::int64_t block_bytes(const PlainArray& array);

}  // namespace tranship::python
