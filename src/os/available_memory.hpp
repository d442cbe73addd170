// How much memory this process may still take.
#pragma once

#include <cstdint>
#include <string>

#include "os/shared_memory.hpp"

namespace tranship {

struct AvailableMemory {
  std::int64_t bytes = 0;
  std::string limited_by;       ///< The machine, or the control group whose limit applies.
  std::int64_t swap_bytes = 0;  ///< How much of `bytes` is swap.
};

/// Returns the memory that is left on the machine, swap included, or in the control groups of this
/// process, if that is less. File caches count as free. A limit that cannot be read is ignored. An
/// estimate: other processes allocate at the same time. Cost: some 50 us.
AvailableMemory available_memory();

/// Allocates all pages of a part of the memory, or none. Without it a page is allocated, and
/// charged to the process that touches it first, on first access, which may fail. No two threads
/// may do so for parts that overlap.
/// @error out_of_memory if that is more than is available, or the kernel refuses
Status take_pages(const SharedMemory& memory, std::int64_t offset, std::int64_t bytes);

/// Gives the pages of a part of the memory back to the system, also where other processes map them:
/// whoever reads there finds zeros.
void give_back_pages(const SharedMemory& memory, std::int64_t offset, std::int64_t bytes);

/// Clears allocated pages that nobody has written, and maps them here. The kernel does so on the
/// first access otherwise, page by page. Does nothing on kernels that cannot (before Linux 5.14).
void clear_pages(const SharedMemory& memory, std::int64_t offset, std::int64_t bytes);

/// Does as above with other folders than /proc and /sys/fs/cgroup, for tests.
AvailableMemory available_memory(const std::string& proc, const std::string& groups);

}  // namespace tranship
