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
    /// Whether forked children keep the mapping. Arrays of a program do, as other memory of it
    /// does; memory that carries messages does not: it belongs to the process that made it.
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
  /// Returns the descriptor to send to a process that maps the memory; -1 after close_descriptor().
  int descriptor() const { return descriptor_.get(); }
  /// Returns the kernel's number of the memory: equal for two descriptors of the same memory.
  std::uint64_t inode() const { return inode_; }
  /// Closes the descriptor: no further process can map the memory.
  void close_descriptor() { descriptor_.reset(); }
  bool contains(const std::byte* address, std::int64_t bytes) const;

  /// Lets forked children that do not see the memory fault where they use its addresses, and find
  /// nothing else there. Returns false if too many memories are guarded.
  bool guard_in_children();

  /// Returns the registration of the memory with devices, which the first call of `make` has made;
  /// null if that returned null. It is released before the memory is unmapped.
  template <typename Make>
  std::shared_ptr<void> registration(const Make& make) {
    std::lock_guard lock(mutex_);
    if (!asked_) registration_ = make();
    asked_ = true;
    return registration_;
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
  bool guarded_ = false;
  bool asked_ = false;
  std::shared_ptr<void> registration_;
};

/// The shared memories that an engine has allocated and that are still in use. Threads: all.
class SharedMemories {
 public:
  /// @error as of SharedMemory::allocate
  Result<std::shared_ptr<SharedMemory>> allocate(std::int64_t bytes);

  /// Returns the memory that contains these bytes; null if none does.
  std::shared_ptr<SharedMemory> holding(const std::byte* address, std::int64_t bytes) const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<SharedMemory>> memories_;
};

}  // namespace tranship
