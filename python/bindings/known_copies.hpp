// Copies between NumPy arrays, or between tensors of one GPU, whose recipes the engine remembers.
// Such arrays are read as their libraries describe them: to make arrays of the engine's costs more
// than the start of a short copy. All functions are called with the interpreter's lock held.
#pragma once

#include <optional>

#include "order.hpp"

namespace tranship::python {

/// Largest copy, in bytes, that runs with the interpreter's lock held if it stays in this process's
/// memory: up to this size a copy takes less time than releasing the lock and taking it again.
constexpr std::int64_t small_bytes = 64 << 10;

/// Starts a copy whose recipe is remembered. Returns nothing otherwise, and for arrays that may
/// overlap: the general call then says so, if they do. before: Gets the arrays' streams; a call
/// that returns nothing may have added them.
std::optional<BoundEvent> start_known(const std::shared_ptr<Engine>& engine, nb::handle source,
                                      nb::handle target, const CopyOptions& options,
                                      Before& before);

/// Starts the copies of a tuple of pairs in one of three cases: all arrays are NumPy's and their
/// recipes are remembered; the list of arrays of one GPU is remembered; or it is long, and each of
/// its pairs copies one block to another. Returns nothing otherwise.
std::optional<BoundEvent> start_known_list(const std::shared_ptr<Engine>& engine,
                                           const nb::tuple& pairs, const CopyOptions& options,
                                           Before& before);

/// Packs one item of a type from a NumPy array to another, or unpacks it, if the recipe is
/// remembered and the copy is short. Returns false otherwise, with nothing done.
/// places: The array in which the type's elements lie.
bool pack_known(Engine& engine, nb::handle places, nb::handle packed, const Datatype& type,
                bool unpacks);

}  // namespace tranship::python
