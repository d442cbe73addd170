// What the bindings remember from call to call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <nanobind/nanobind.h>

namespace tranship::python {

/// Places in which entries of one kind are remembered, by a hash.
template <typename Entry>
using Remembered = std::array<Entry, 64>;

/// Returns the place of what has this hash: guarded by the interpreter's lock and never destroyed;
/// in a build without that lock, of this thread.
template <typename Entry>
Entry& remembered(std::uint64_t hash) {
#if defined(Py_GIL_DISABLED)
  thread_local Remembered<Entry> entries;
#else
  static Remembered<Entry>& entries = *new Remembered<Entry>;
#endif
  return entries[(hash >> 32) % entries.size()];
}

}  // namespace tranship::python
