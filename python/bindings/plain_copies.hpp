// Short copies of NumPy arrays that are found again by what NumPy says of the arrays: copies of the
// same shapes, strides and types need no description of their arrays, no checks but for overlap,
// and no query of a plan. These cost several times what the copy itself does. All functions are
// called with the interpreter's lock held.
#pragma once

#include <memory>
#include <optional>

#include "copies.hpp"

namespace tranship::python {

/// Remembers how an engine carried a copy between plain arrays; ends: The arrays as the engine got
/// them.
void remember_copy(const Engine& engine, nb::handle source, nb::handle target, const CopyPair& ends,
                   const std::shared_ptr<const Plan>& plan);

/// Carries a copy that is remembered. Returns nothing if it is not, or the memory between the first
/// and the last bytes of the arrays overlaps.
std::optional<Event> copy_known(const Engine& engine, nb::handle source, nb::handle target);

/// Carries a list of short copies on this thread, and remembers those that are new; those that were
/// known are carried with the interpreter's lock released if they have more than a MiB. Returns
/// the first copy's event; nothing if one of them is no short copy between NumPy arrays, or the new
/// ones have more than a MiB: then all have to be asked for again.
std::optional<Event> copy_short_list(Engine& engine, nb::handle given);

}  // namespace tranship::python
