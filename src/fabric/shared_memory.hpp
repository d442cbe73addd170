// Memory that other processes of this machine can map, with nothing to clean up afterwards.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tranship/error.hpp"

namespace tranship {

/// What a process must know to map another process's SharedMemory.
struct MemoryTicket {
  std::int32_t descriptor = -1;
  std::uint64_t inode = 0;
  std::int64_t bytes = 0;
};

/// Page-aligned zeroed memory in a memfd, sealed against resizing so that no peer can make an
/// access fault. The kernel frees it with the last mapping: a kill -9 leaves nothing behind.
/// Owns the descriptor and the mapping. Threads: all.
class SharedMemory {
 public:
  struct Options {
    std::int64_t bytes = 0;
    bool huge_pages = true;  ///< ask for 2 MiB pages where it is at least that large
  };

  /// @error invalid_argument if bytes < 1; out_of_memory if the kernel refuses
  static Result<std::shared_ptr<SharedMemory>> allocate(Options options);

  /// Maps the memory that process `pid` describes by `ticket`, through /proc.
  /// @error permission if the operating system forbids it; io if the descriptor is not that memory
  static Result<std::shared_ptr<SharedMemory>> open(pid_t pid, const MemoryTicket& ticket);

  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  MemoryTicket ticket() const;
  bool contains(const std::byte* address, std::int64_t bytes) const;

  /// Calls `make` once, for what devices need to reach this memory; what it returns is given back
  /// before the memory is unmapped. False if it returned null; it is not tried again.
  template <typename Make>
  bool register_once(const Make& make) {
    std::lock_guard lock(mutex_);
    if (!asked_) registration_ = make();
    asked_ = true;
    return registration_ != nullptr;
  }

 private:
  SharedMemory() = default;
  Status map(bool huge_pages);

  int descriptor_ = -1;
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
  std::mutex mutex_;  ///< guards what follows
  bool asked_ = false;
  std::shared_ptr<void> registration_;
};

/// The shared memory that an engine has made, for as long as somebody uses it. Threads: all.
class SharedMemories {
 public:
  /// @error as of SharedMemory::allocate
  Result<std::shared_ptr<SharedMemory>> allocate(std::int64_t bytes);

  /// The memory that holds these bytes; null if none does.
  std::shared_ptr<SharedMemory> holding(const std::byte* address, std::int64_t bytes) const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<SharedMemory>> memories_;
};

}  // namespace tranship
