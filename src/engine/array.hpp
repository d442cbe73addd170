// One end of a copy: a box of an array, and the memory in which it lies.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/mapping.hpp"
#include "machine/memory_kind.hpp"
#include "os/shared_memory.hpp"
#include "runtime/channel.hpp"

namespace tranship {

namespace fabric {
class RemoteArray;
}

/// What is known of an array's memory without asking the kernel.
enum class Backing : std::uint8_t {
  unknown,
  own,     ///< an allocator's, which no other address shows: of malloc(), NumPy or Python
  shared,  ///< an Engine's of this process, which other processes may map
};

/// Whether another process's array can still be used. Threads: all.
class Liveness {
 public:
  virtual ~Liveness() = default;
  virtual Status check() const = 0;
  /// Counts a copy among the array's users until the answer is released: the owner waits for that
  /// before it takes the memory back. Null if the owner has taken it back.
  virtual std::shared_ptr<void> hold() const = 0;
  /// Counts a copy on the caller's thread among the array's users until end_copy(). Returns false
  /// if the owner has taken the array back.
  virtual bool begin_copy() const = 0;
  virtual void end_copy() const = 0;
  /// Counts a reader that may outlast the connection among the array's users, until the answer is
  /// released, on any thread: the owner does not use the memory for anything else meanwhile. Null
  /// if the owner has taken it back.
  virtual std::shared_ptr<void> view() const = 0;
  /// Returns the address at which one of this process's GPUs reaches an array on a GPU: the memory
  /// of another process is mapped for each GPU at an address of its own.
  /// @error what the driver refused; not_found if the owner has taken the array back
  virtual Result<std::byte*> address_for(int gpu) const = 0;
  /// Returns the array itself, which lives as long as this object.
  virtual const fabric::RemoteArray& remote() const = 0;
};

/// What a copy holds until it has ended.
using Leases = std::vector<std::shared_ptr<void>>;

/// A value. It keeps what it refers to alive through `owner`.
struct Array {
  View view;
  Place place;
  MemoryKind memory_kind = MemoryKind::host;
  int device = -1;  ///< of device memory: the GPU's number; -1: the driver knows
  /// Of another process's array on a GPU: the GPU of this process that finds it at `place`.
  int opened_for = -1;
  Backing backing = Backing::unknown;  ///< of memory of this process's host
  bool writable = true;
  bool named = false;  ///< its dimensions have names of the user's; else they match by position
  std::shared_ptr<void> owner;
  std::shared_ptr<SharedMemory> shared;      ///< where a peer's array is mapped; else null
  std::shared_ptr<const Liveness> liveness;  ///< null: nothing to check
  /// A cudaStream_t behind whose work the array is ready (1 and 2: the default streams).
  std::optional<std::uintptr_t> stream;
  std::string name;  ///< for messages: "host memory", a file's path, a peer's export
};

/// Returns the address of the lowest byte of an array that has an address.
inline std::byte* first_byte(const Array& array) {
  return array.place.address + array.view.mapping->begin_bytes();
}

/// Whether the array lies on a GPU and another process owns it.
inline bool is_opened(const Array& array) {
  return array.memory_kind == MemoryKind::device && array.liveness != nullptr;
}

/// Returns the GPU that must carry a copy between two GPUs: the one for which another process's
/// array is mapped. -1: both arrays are this process's, and either GPU can carry it.
inline int carrier_of(const Array& source, const Array& target) {
  if (is_opened(target)) return target.opened_for;
  return is_opened(source) ? source.opened_for : -1;
}

}  // namespace tranship
