// What the files of the bindings share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "engine/array.hpp"
#include "engine/engine.hpp"
#include "interpreter.hpp"

namespace tranship::python {

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

/// Raises Closed if the interpreter is ending: nothing new is opened then.
void check_interpreter();

/// A timeout that Python gives in seconds; some days at most.
inline std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e6) * 1e3));
}

/// The settings of the environment, with some variables replaced.
Config config_with(const std::map<std::string, std::string>& overrides);

/// Names and extents; names, types and sizes in bytes: as Python hands them over.
using Extents = std::vector<std::pair<std::string, std::int64_t>>;
using Fields = std::vector<std::tuple<std::string, std::string, std::int64_t>>;

/// The dense mapping of a layout, such as "F, x, y".
std::shared_ptr<const Mapping> mapping_of(const Extents& extents, const Fields& fields,
                                          const std::string& layout);

/// Any array that Python may hand over: our own, one with the buffer protocol, or one that
/// tranship.arrays.to_core knows (structured types, DLPack). It keeps what it lies in: a NumPy
/// array by a reference, as NumPy resizes none that has several; any other buffer exported.
Array array_of(nb::handle object, bool writable);

/// The same for as long as the caller holds the object: a NumPy array has no owner then.
Array borrowed_array_of(nb::handle object, bool writable);

/// Tuples of a source and a target.
using Pairs = nb::typed<nb::iterable, nb::typed<nb::tuple, nb::object, nb::object>>;

/// What lies in one of them.
CopyPair pair_of(nb::handle pair);

/// Names, types, sizes and offsets in bytes.
using PlacedFields = std::vector<std::tuple<std::string, std::string, std::int64_t, std::int64_t>>;

/// An array in host memory, by address, shape and strides in bytes; without an owner. Without names
/// its dimensions are d0, d1 and so on.
Array strided_array(std::uintptr_t address, const std::vector<std::int64_t>& shape,
                    const std::vector<std::int64_t>& strides, const PlacedFields& fields,
                    const std::vector<std::string>& names = {});

/// The same array known to lie in "host", "pinned" or "device" memory, ready behind `stream`.
Array placed(const Array& array, const std::string& where, int device,
             std::optional<std::uintptr_t> stream);

/// The events that a put starts after: None, one, or several.
std::vector<Event> events_of(nb::handle after);

/// A stream that a caller or an array names.
struct CallerStream {
  std::uintptr_t handle = 0;  ///< cudaStream_t
  int device = -1;            ///< -1: unknown
};

/// The stream in a number, or in an object of a GPU library; nothing in any other object.
std::optional<CallerStream> stream_in(nb::handle object);

/// The streams that a copy names.
struct Streams {
  std::optional<CallerStream> own;   ///< which carries the copy where it can
  std::vector<CallerStream> others;  ///< which the copy starts after
};

/// One stream behind the work of those given and of those that the arrays name; nothing if none is
/// named. The source keeps alive what was made for it.
/// Without the interpreter's lock.
/// @error what the driver refused; invalid_argument for streams without a GPU
Result<std::optional<std::uintptr_t>> joined(const Engine& engine, const Streams& given,
                                             Array& source, Array& target);

void prepare_arrays();
void bind_arrays(nb::module_& module);
void bind_calibration(nb::module_& module);
void bind_device_arrays(nb::module_& module);
void bind_device_memory(nb::module_& module);
void bind_engine(nb::module_& module);
void bind_engine_functions(nb::module_& module);
void bind_planning(nb::module_& module);
void bind_processes(nb::module_& module);
void bind_simulation(nb::module_& module);
void bind_staging(nb::module_& module);

}  // namespace tranship::python
