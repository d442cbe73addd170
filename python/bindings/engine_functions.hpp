// Functions of the engine for a module that is compiled apart, such as the timing loops of the
// benchmarks. Only plain types cross between the two modules, so that they share no class, and a
// loop between two calls of the engine runs without Python.
//
// The table is in a capsule, which `tranship._core.engine_functions()` returns. The capsule lives
// as long as the module.
#pragma once

#include <cstddef>
#include <cstdint>

struct _object;  // PyObject

namespace tranship::python {

inline constexpr const char* engine_functions_name = "tranship._core.engine_functions";

/// Incremented with every change of EngineFunctions. The other module compares it.
inline constexpr std::uint32_t engine_functions_version = 2;

/// Memory for one event of the engine, which start_copy() and start_all() make in place.
struct EventMemory {
  alignas(16) std::byte bytes[192];
};

/// Memory of the two arrays of an opened pair.
struct PairMemory {
  const std::byte* source = nullptr;
  std::byte* target = nullptr;
  std::int64_t bytes = 0;
};

/// State of a GPU's work, asked without waiting.
enum class WorkState { running, ended, failed };

/// Threads: as Engine. A function that returns false, null or `failed` stores an error for its
/// thread, which raise_error() raises.
struct EngineFunctions {
  std::uint32_t version;

  // The calling thread holds the interpreter's lock.

  /// Opens a Python engine, which close_engine() releases. Null: a Python exception is set.
  void* (*open_engine)(_object* engine);
  void (*close_engine)(void* engine);
  /// Opens an iterable of pairs (source, target) of arrays, which close_pairs() releases. Null: a
  /// Python exception is set.
  void* (*open_pairs)(_object* pairs);
  void (*close_pairs)(void* pairs);
  std::int64_t (*count_pairs)(const void* pairs);
  PairMemory (*memory_of)(const void* pairs, std::int64_t index);
  /// Returns the query of a Python object that prepare_query() made, which must stay alive. Null: a
  /// Python exception is set.
  void* (*query_of)(_object* query);
  /// Sets the Python exception of the last error of this thread.
  void (*raise_error)();

  // The calling thread does not hold the lock.

  /// Copies one pair and waits for the end of the copy, at most 60 s.
  bool (*copy)(void* engine, const void* pairs, std::int64_t index);
  /// Starts the copy of one pair; end_event() destroys the event.
  bool (*start_copy)(void* engine, const void* pairs, std::int64_t index, EventMemory* event);
  /// Starts the copies of all pairs together.
  bool (*start_all)(void* engine, const void* pairs, EventMemory* event);
  /// Waits for an event, at most 60 s.
  bool (*wait)(const EventMemory* event);
  void (*end_event)(EventMemory* event);
  /// Plans the copy of one pair.
  bool (*plan)(void* engine, const void* pairs, std::int64_t index);
  /// Plans a prepared query again.
  bool (*plan_query)(void* query);
  /// Looks up the plan of a prepared query in its cache.
  bool (*find_query)(void* query);

  /// Makes a stream of a GPU with an event; close_stream() releases both.
  void* (*open_stream)(void* engine, int device);
  void (*close_stream)(void* stream);
  /// Enqueues a copy by the driver alone, without the engine.
  bool (*stream_copy)(void* stream, const std::byte* source, std::byte* target, std::int64_t bytes);
  /// Records the stream's event.
  bool (*record)(void* stream);
  /// Returns whether the work before the recorded event has ended.
  WorkState (*state)(void* stream);
};

}  // namespace tranship::python
