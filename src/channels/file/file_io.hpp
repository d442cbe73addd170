// Single reads and writes of an open file: choice of the descriptor, alignment and retries.
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

/// Size from which runs bypass the page cache.
inline constexpr std::int64_t direct_bytes_min = 64 * 1024;

/// Memory that begins on a large page, in large pages where the system has them. Owns the memory.
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

/// A contiguous run of bytes in a file, and its address in memory.
struct FileRun {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  std::byte* memory = nullptr;
};

/// Returns whether direct I/O of `run` can use its memory without a scratch buffer: as whole pages,
/// or, for a write, with a head and a tail through the cache.
bool direct_suits(const File& file, const FileRun& run);

/// Reads `run`. Bypasses the cache if the run is large, is not in the cache already, and is either
/// whole pages or `padded`.
/// padded: Whether the memory extends to the page boundaries before and after the run, and has the
/// same offset in its page as the run.
Status read_run(File& file, const FileRun& run, bool padded);

/// Writes `run`: whole pages of a large run bypass the cache, the rest goes through it.
Status write_run(File& file, const FileRun& run);

/// Returns whether the range is in the page cache, so that reading it needs no I/O. Where the
/// kernel does not say so, as before Linux 6.5 and for files of others, some bytes of it are looked
/// for.
bool is_cached(const File& file, std::int64_t offset, std::int64_t bytes);

/// Returns the error for a file that ends before `end`.
Error too_short(const File& file, std::int64_t end);

/// Asks the kernel to start reading, so that many small reads are in flight at the same time.
void read_soon(File& file, std::int64_t offset, std::int64_t bytes);

}  // namespace tranship::file
