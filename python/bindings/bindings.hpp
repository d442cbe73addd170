// Declarations that the files of the bindings share.
#pragma once

#include <nanobind/nanobind.h>

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
#include "engine/stream_order.hpp"
#include "interpreter.hpp"
#include "text_caster.hpp"

namespace tranship::python {

struct ExchangeTable;

/// Raises the Python exception of the error's code (tranship.errors).
[[noreturn]] void raise(const Error& error);

/// Returns a Python object as messages show it: its repr, shortened.
std::string shown(nb::handle object);

/// Returns an attribute; null, without a Python exception, if the object has none of that name.
inline nb::object attribute(nb::handle object, PyObject* name) {
  nb::object found = nb::steal(PyObject_GetAttr(object.ptr(), name));
  if (!found.is_valid()) PyErr_Clear();
  return found;
}

/// Returns whether a type says that it belongs to a module of this name.
bool is_of_module(PyTypeObject* type, const char* name);

template <typename T>
T unwrap(Result<T> result) {
  if (!result) raise(result.error());
  return std::move(*result);
}

inline void unwrap(const Status& status) {
  if (!status) raise(status.error());
}

/// Raises Closed if the interpreter is ending, when nothing new may be opened.
void check_interpreter();

/// Converts a timeout from Python in seconds, limited to 1e6 s (11.6 days).
inline std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e6) * 1e3));
}

/// Returns the settings of the environment, with some variables replaced.
Config config_with(const std::map<std::string, std::string>& overrides);

/// Dimensions, as names and extents, and fields, as names, types and sizes in bytes, from Python.
using Extents = std::vector<std::pair<std::string, std::int64_t>>;
using Fields = std::vector<std::tuple<std::string, std::string, std::int64_t>>;

/// Returns the dense mapping of a layout, such as "F, x, y".
std::shared_ptr<const Mapping> mapping_of(const Extents& extents, const Fields& fields,
                                          const std::string& layout);

/// The shape and type of a dense or strided array of one field. The pointers are the caller's.
struct StridedShape {
  const char* type = nullptr;  ///< NumPy's name, or that of ml_dtypes; up to 23 characters
  std::int64_t item_bytes = 0;
  int rank = 0;  ///< at most dimensions_max
  const std::int64_t* shape = nullptr;
  const std::int64_t* strides = nullptr;  ///< bytes
};

/// Returns the mapping of a plain array, from a cache of recent ones. The caller holds the
/// interpreter's lock.
std::shared_ptr<const Mapping> cached_mapping(const StridedShape& plain);

/// What an Array keeps alive of the Python object that it was made from.
enum class Hold {
  nothing,  ///< the caller holds the object: a NumPy array or a tensor gets no owner
  object,
  memory,  ///< the memory of the object as it is now, even if the object gets other memory later
};

/// Which streams of GPUs a call is ordered with.
enum class Follows {
  current,  ///< the current streams of the libraries that made the arrays
  given,    ///< the caller's stream, and streams in which an array is still being written
  nothing,  ///< none: the caller orders the work
};

/// Makes an array from a tensor whose type has DLPack's C exchange table, without a call of Python
/// code that makes a capsule. Returns false, without a Python exception, if there is no table or
/// if the tensor needs the checks of tranship.arrays.to_core, which names what is wrong with it.
/// writable: Whether the array becomes a target.
bool from_exchange_table(nb::handle object, bool writable, Hold held, Follows follows,
                         Array& array);

/// Returns the array in a Python object: one of this module, one with the buffer protocol, or one
/// that tranship.arrays.to_core converts (structured types, DLPack). The result keeps its memory: a
/// NumPy array by a reference, since NumPy does not resize an array that has several; any other
/// buffer by keeping it exported.
Array array_of(nb::handle object, bool writable, Hold held = Hold::object,
               Follows follows = Follows::current);

/// Returns the core's array in one of this package's; null for any other object. It lives as long
/// as the object refers to it.
const Array* own_array(nb::handle object);

/// An iterable of tuples (source, target).
using Pairs = nb::typed<nb::iterable, nb::typed<nb::tuple, nb::object, nb::object>>;

/// Fields whose dimensions have one stride each: name, type, bytes, offset in bytes of the element
/// at index 0, and strides in bytes.
using StridedFields = std::vector<
    std::tuple<std::string, std::string, std::int64_t, std::int64_t, std::vector<std::int64_t>>>;

/// Returns the mapping of such fields.
std::shared_ptr<const Mapping> mapping_of(const Extents& extents, const StridedFields& fields);

/// Returns the mapping of one field alone, as one of the type `type`.
/// @throws InvalidArgument for a dimension that is stored in blocks
std::shared_ptr<const Mapping> mapping_of_field(const Mapping& mapping, const Placement& placed,
                                                const std::string& type);

/// Returns the events in `after`, which is None, one event, or several.
/// @throws InvalidArgument for anything else
std::vector<Event> events_of(nb::handle after);

/// Returns the stream that an array names, with its GPU; nothing if it names none.
std::optional<CallerStream> stream_of(const Engine& engine, const Array& array);

/// Returns the stream in a number or in an object of a GPU library; nothing for any other object.
std::optional<CallerStream> stream_in(nb::handle object);

/// Returns the stream that an array's library says it works in now; nothing if it does not.
std::optional<std::uintptr_t> library_stream(nb::handle array, int device);

/// What a caller says by `stream=`.
struct StreamChoice {
  Follows follows = Follows::current;
  std::optional<CallerStream> own;  ///< the caller's stream
};

/// @throws InvalidArgument for what is neither None, "none", nor a stream
StreamChoice stream_choice(nb::handle stream);

/// Gives the current stream of the library that made an array, at each start of a prepared copy.
class StreamSource {
 public:
  /// object: The array as its library has it. named: The stream that it named when it was prepared,
  /// with its GPU.
  StreamSource(nb::handle object, const CallerStream& named);
  /// Returns the stream that is current now.
  CallerStream now() const;
  /// Whether it is always the stream that the array named at first.
  bool fixed() const { return table_ == nullptr && !object_.is_valid(); }
  /// Whether both always give the same stream.
  bool operator==(const StreamSource& other) const;

 private:
  const ExchangeTable* table_ = nullptr;
  nb::object object_;   ///< array whose library gives the stream; null: a table does, or none
  CallerStream fixed_;  ///< the stream that the array named at first
};

/// Finds NumPy's types, if it is installed, so that its arrays are read without calls of it.
void prepare_arrays();

void bind_array_views(nb::module_& module);
void bind_arrays(nb::module_& module);
void bind_calibration(nb::module_& module);
void bind_device_arrays(nb::module_& module);
void bind_device_memory(nb::module_& module);
void bind_engine(nb::module_& module);
void bind_events(nb::module_& module);
void bind_planning(nb::module_& module);
void bind_plans(nb::module_& module);
void bind_prepared(nb::module_& module);
void bind_processes(nb::module_& module);
void bind_simulation(nb::module_& module);
void bind_staging(nb::module_& module);
void bind_types(nb::module_& module);

}  // namespace tranship::python
