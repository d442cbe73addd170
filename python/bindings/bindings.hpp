// What the files of the bindings share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

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

/// Names and extents; names, types and sizes in bytes: as Python hands them over.
using Extents = std::vector<std::pair<std::string, std::int64_t>>;
using Fields = std::vector<std::tuple<std::string, std::string, std::int64_t>>;

/// The dense mapping of a layout, such as "F, x, y".
std::shared_ptr<const Mapping> mapping_of(const Extents& extents, const Fields& fields,
                                          const std::string& layout);

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
