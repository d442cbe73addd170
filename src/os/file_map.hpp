// Maps of files that may become shorter meanwhile: that is an error here, and no signal.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tranship {

/// A part of a file in the address space. If the file loses a page that is accessed (another
/// process truncates it, or the disk fails), the kernel sends SIGBUS: the handler that the first
/// map installs puts zeros in the place of the whole map and marks it broken; any other SIGBUS goes
/// to the handler before it. Who accesses a map asks broken() afterwards.
/// Owns the mapping. Threads: all, if SIGBUS is not blocked in those that access it.
class FileMap {
 public:
  enum class Access { read, read_write };

  /// Maps `bytes` from `offset` on. Pages are read as they are accessed, without others around
  /// them.
  FileMap(int descriptor, std::int64_t offset, std::int64_t bytes, Access access);
  ~FileMap();
  FileMap(const FileMap&) = delete;
  FileMap& operator=(const FileMap&) = delete;

  /// Returns the address of the byte at `offset`; null if the system refuses to map the file, if
  /// too many maps exist, or if the process has put another handler in the place of this one.
  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

  /// Whether what was read from the map may be zeros, and what was stored may be lost.
  bool broken() const;

  /// Whether a missing page would be found. False once another handler has taken the place.
  static bool guarded();

  /// Takes the pages out of the address space again; they stay in the page cache.
  void forget() const;

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
  void* base_ = nullptr;
  std::size_t base_bytes_ = 0;
  std::size_t slot_;
};

}  // namespace tranship
