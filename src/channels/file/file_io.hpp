// Single reads and writes of an open file: which descriptor, how aligned, how retried.
//
// Invariants that let requests of one transfer write neighbouring bytes at the same time:
//   W1 Nothing is read in order to be written back: each byte that is written belongs to the
//      request. Parts of a page go through the page cache, which merges them.
//   W2 A page is written around the cache only if all of it belongs to one request, so no other
//      request ever makes that page dirty in the cache.
//   W3 Nothing reads ahead through the cached descriptor: a stale neighbour page that shared a
//      folio with a dirty one could otherwise be written back over what went around the cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.hpp"
#include "channels/file/file.hpp"

namespace tranship::file {

/// Runs from this size on go around the page cache.
inline constexpr std::int64_t direct_bytes_min = 64 * 1024;

/// Memory that begins on a large page, in large pages where the system has them.
class ScratchBuffer {
 public:
  explicit ScratchBuffer(std::int64_t bytes);
  ~ScratchBuffer();
  ScratchBuffer(const ScratchBuffer&) = delete;
  ScratchBuffer& operator=(const ScratchBuffer&) = delete;

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
  void* mapped_ = nullptr;
  std::size_t mapped_bytes_ = 0;
};

/// A run of a file and where its bytes are in memory.
struct FileRun {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  std::byte* memory = nullptr;
};

/// Whether a direct I/O of `run` could use its memory as it is, whole pages only or (writing) with
/// a head and a tail through the cache.
bool direct_suits(const File& file, const FileRun& run);

/// Reads `run`. Around the cache if `padded` (the memory extends to the page boundaries before and
/// after the run, and lies on the same offset in its page as the run does) or if the run is whole
/// pages, and if it is large and not in the cache already.
Status read_run(File& file, const FileRun& run, bool padded);

/// Writes `run`: whole pages of a large one around the cache, the rest through it.
Status write_run(File& file, const FileRun& run);

/// Tells the kernel to start reading, so that many small reads are under way at once.
void read_soon(File& file, std::int64_t offset, std::int64_t bytes);

/// A window of the file, mapped for writing with every page present, so that stores cannot fail.
class MappedWindow {
 public:
  MappedWindow(File& file, std::int64_t offset, std::int64_t bytes);
  ~MappedWindow();
  MappedWindow(const MappedWindow&) = delete;
  MappedWindow& operator=(const MappedWindow&) = delete;

  /// The byte at `offset`; null if the system cannot map it or cannot promise its pages.
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  void* base_ = nullptr;
  std::size_t base_bytes_ = 0;
};

}  // namespace tranship::file
