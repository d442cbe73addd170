// The kinds of memory: of the memories that a profile lists, of arrays, and of addresses.
#pragma once

#include <cstddef>
#include <string>

#include "base/error.hpp"

namespace tranship {

/// What an array lies in, as far as the choice of a path is concerned. To add one, add its name to
/// the table in memory_kind.cpp and its memory to CopyPlanner.
enum class MemoryKind {
  host,          ///< pageable memory of this process
  pinned,        ///< page-locked memory that the CPU and the GPUs reach directly
  registered,    ///< page-locked memory that the network card reaches directly
  device,        ///< memory of a GPU of this machine, of this process or opened from another one
  managed,       ///< CUDA managed memory, which the driver moves between host and GPU
  shared,        ///< memory of another process of this machine, mapped into this one
  file,          ///< a file or a block device
  near_process,  ///< memory of another process of this machine that is not mapped here
  far_process,   ///< memory of a process on another machine
};

inline constexpr std::size_t memory_kind_count = 9;

/// Returns the name of the kind, such as "host".
const char* to_string(MemoryKind kind);

/// Returns the kind of that name. Only kinds that a profile may list have a name that is read:
/// host, pinned, registered, device and file. The others are found out at run time.
/// @error invalid_argument if no such kind has the name `text`; the message lists the names
Result<MemoryKind> memory_kind_from(const std::string& text);

/// Returns whether this process's CPU loads from and stores to addresses in memory of that kind.
/// Managed memory counts as the GPU's: the CPU's access would move it.
constexpr bool cpu_reaches(MemoryKind kind) {
  return kind == MemoryKind::host || kind == MemoryKind::shared || kind == MemoryKind::pinned;
}

}  // namespace tranship
