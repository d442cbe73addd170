// What the files of the bindings share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>

#include "engine/array.hpp"
#include "engine/engine.hpp"
#include "tranship/error.hpp"

namespace tranship::python {

namespace nb = nanobind;

/// Raises the Python exception of the error's code (tranship.errors).
[[noreturn]] void raise(const Error& error);

template <typename T>
T unwrap(Result<T> result) {
  if (!result) raise(result.error());
  return std::move(*result);
}

inline void unwrap(const Status& status) {
  if (!status) raise(status.error());
}

/// Keeps a Python object alive from C++; let go with the interpreter's lock held.
std::shared_ptr<void> keep(nb::handle object);

/// Any array that Python may hand over: our own, one with the buffer protocol, or one that
/// tranship.arrays.to_core knows (structured types, DLPack).
Array array_of(nb::handle object, bool writable);

void bind_arrays(nb::module_& module);
void bind_engine(nb::module_& module);
void bind_planning(nb::module_& module);
void bind_measuring(nb::module_& module);
void bind_simulation(nb::module_& module);

}  // namespace tranship::python
