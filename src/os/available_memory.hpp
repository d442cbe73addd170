// How much memory this process may still take.
#pragma once

#include <cstdint>
#include <string>

#include "os/shared_memory.hpp"

namespace tranship {

struct AvailableMemory {
  std::int64_t bytes = 0;
  std::string limited_by;  ///< what has no more: the machine, or a control group's limit
};

/// Returns what the machine has left, swap included, or the control groups of this process, if that
/// is less. File caches count as left. What cannot be read limits nothing. An estimate: others take
/// memory at the same time. Cost: some 50 us.
AvailableMemory available_memory();

/// Takes all pages of memory that was made without them: this process pays for them then, not the
/// first that touches them, and nobody's access to them fails. All or none.
/// @error out_of_memory if they are more than is available, or the kernel refuses
Status take_pages(const SharedMemory& memory);

/// Available memory as of other folders than /proc and /sys/fs/cgroup.
AvailableMemory available_memory(const std::string& proc, const std::string& groups);

}  // namespace tranship
