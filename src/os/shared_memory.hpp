// Memory that other processes of this machine can map, with nothing to clean up afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/error.hpp"
#include "os/descriptor.hpp"

namespace tranship {

/// Page-aligned zeroed memory in a memfd, sealed against resizing so that no peer can make an
/// access fault. The kernel frees it with the last mapping: a kill -9 leaves nothing behind.
/// Owns the descriptor and the mapping. Threads: all.
class SharedMemory {
 public:
  struct Options {
    std::int64_t bytes = 0;
    bool huge_pages = true;  ///< Ask for 2 MiB pages where it is at least that large.
    /// Whether a forked child sees it. Programs may use memory of theirs in a child as they do any
    /// other; what carries messages belongs to the process that made it.
    bool in_children = true;
  };

  /// @error invalid_argument if bytes < 1; out_of_memory if the kernel refuses
  static Result<std::shared_ptr<SharedMemory>> allocate(Options options);

  /// Maps memory of another process, whose descriptor came over a socket. Forked children do not
  /// see it.
  /// @error io if the descriptor is not memory of `allocate`, which has `bytes` bytes or more
  static Result<std::shared_ptr<SharedMemory>> map(FileDescriptor descriptor, std::int64_t bytes);

  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  /// What to send to a process that is to map it; -1 after close_descriptor().
  int descriptor() const { return descriptor_.get(); }
  /// The number of the memory in this machine, to tell whether two descriptors are of one.
  std::uint64_t inode() const { return inode_; }
  /// Nobody else will map it: its descriptor is not kept.
  void close_descriptor() { descriptor_.reset(); }
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
  Status map_pages(bool huge_pages, bool in_children);

  FileDescriptor descriptor_;
  std::uint64_t inode_ = 0;
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
  std::uint64_t generation_ = 0;
  bool in_children_ = true;
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
