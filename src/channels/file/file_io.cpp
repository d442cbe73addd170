#include "channels/file/file_io.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <string>

namespace tranship::file {
namespace {

/// Progress of a loop of reads or writes.
struct Progress {
  std::int64_t bytes = 0;
  int error_number = 0;
};

constexpr std::int64_t huge_page_bytes = 2 << 20;

std::int64_t align_down(std::int64_t value, std::int64_t align) { return value - value % align; }

std::int64_t align_up(std::int64_t value, std::int64_t align) {
  return align_down(value + align - 1, align);
}

bool address_suits(const File& file, const std::byte* address) {
  const auto align = static_cast<std::uintptr_t>(file.memory_align_bytes());
  return reinterpret_cast<std::uintptr_t>(address) % align == 0;
}

Progress read_all(int descriptor, const FileRun& run) {
  Progress progress;
  while (progress.bytes < run.bytes) {
    const ssize_t got =
        ::pread(descriptor, run.memory + progress.bytes,
                static_cast<std::size_t>(run.bytes - progress.bytes), run.offset + progress.bytes);
    if (got > 0) {
      progress.bytes += got;
    } else if (got == 0) {
      break;
    } else if (errno != EINTR) {
      progress.error_number = errno;
      break;
    }
  }
  return progress;
}

Progress write_all(int descriptor, const FileRun& run) {
  Progress progress;
  while (progress.bytes < run.bytes) {
    const ssize_t put =
        ::pwrite(descriptor, run.memory + progress.bytes,
                 static_cast<std::size_t>(run.bytes - progress.bytes), run.offset + progress.bytes);
    if (put > 0) {
      progress.bytes += put;
    } else if (put == 0 || errno != EINTR) {
      progress.error_number = put == 0 ? EIO : errno;
      break;
    }
  }
  return progress;
}

FileRun part(const FileRun& run, std::int64_t begin, std::int64_t end) {
  return {begin, end - begin, run.memory + (begin - run.offset)};
}

/// Returns the number of pages of the range that the cache has; -1 if the kernel does not say.
std::int64_t pages_cached(const File& file, std::int64_t offset, std::int64_t bytes) {
#if defined(__linux__)
  constexpr long cachestat_number = 451;
  struct Range {
    std::uint64_t offset, bytes;
  } range{static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(bytes)};
  struct Pages {
    std::uint64_t cached, dirty, writeback, evicted, evicted_recently;
  } pages{};
  if (::syscall(cachestat_number, file.cached_descriptor(), &range, &pages, 0) != 0) return -1;
  return static_cast<std::int64_t>(pages.cached);
#else
  (void)file, (void)offset, (void)bytes;
  return -1;
#endif
}

/// Looks for bytes of the range in the cache, at distances that are even.
bool samples_cached(const File& file, std::int64_t offset, std::int64_t bytes) {
#if defined(RWF_NOWAIT)
  constexpr std::int64_t samples = 32;
  for (std::int64_t k = 0; k < samples; ++k) {
    std::byte read{};
    const iovec part{&read, 1};
    const std::int64_t at = offset + (bytes - 1) / (samples - 1) * k;
    if (::preadv2(file.cached_descriptor(), &part, 1, at, RWF_NOWAIT) != 1) return false;
  }
  return true;
#else
  (void)file, (void)offset, (void)bytes;
  return false;
#endif
}

std::int64_t pages_of(std::int64_t offset, std::int64_t bytes) {
  static const std::int64_t page_bytes = ::sysconf(_SC_PAGESIZE);
  return (align_up(offset + bytes, page_bytes) - align_down(offset, page_bytes)) / page_bytes;
}

Status read_cached(File& file, const FileRun& run) {
  const Progress progress = read_all(file.cached_descriptor(), run);
  if (progress.bytes == run.bytes) return {};
  if (progress.error_number != 0) return file_error("read", file.path(), progress.error_number);
  return too_short(file, run.offset + run.bytes);
}

Status write_failed(File& file, const FileRun& run, const Progress& progress) {
  file.mark_incomplete();
  Error error = file_error("write", file.path(), progress.error_number);
  error.message +=
      " (at byte " + std::to_string(run.offset + progress.bytes) + "; the file is incomplete)";
  error.hint += ", then copy the whole array again";
  return error;
}

Status write_cached(File& file, const FileRun& run) {
  if (run.bytes <= 0) return {};
  const Progress progress = write_all(file.cached_descriptor(), run);
  if (progress.bytes == run.bytes) return {};
  return write_failed(file, run, progress);
}

/// Returns whether an error concerns direct I/O only, not the file.
bool refuses_direct(int error_number) {
  return error_number == EINVAL || error_number == EOPNOTSUPP || error_number == EFAULT;
}

}  // namespace

Error too_short(const File& file, std::int64_t end) {
  return Error{ErrorCode::io,
               "'" + file.path() + "' has " + std::to_string(file.size()) +
                   " bytes and the array needs those up to " + std::to_string(end),
               "it was truncated after it was opened, or the shape, the type or the offset is "
               "wrong"};
}

ScratchBuffer::ScratchBuffer(std::int64_t bytes) : bytes_(align_up(bytes, huge_page_bytes)) {
  // A large page is one segment to the disk's driver where small ones are hundreds: direct reads
  // into small pages were measured at half the rate. Mapped with room to begin on one.
  mapped_bytes_ = static_cast<std::size_t>(bytes_ + huge_page_bytes);
  mapped_ =
      ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped_ == MAP_FAILED) throw std::bad_alloc();
  const auto address = reinterpret_cast<std::intptr_t>(mapped_);
  data_ = static_cast<std::byte*>(mapped_) + (align_up(address, huge_page_bytes) - address);
#ifdef MADV_HUGEPAGE
  ::madvise(data_, static_cast<std::size_t>(bytes_), MADV_HUGEPAGE);
#endif
}

ScratchBuffer::~ScratchBuffer() { ::munmap(mapped_, mapped_bytes_); }

bool direct_suits(const File& file, const FileRun& run) {
  const std::int64_t first = align_up(run.offset, file.direct_align_bytes());
  return address_suits(file, run.memory + (first - run.offset));
}

Status read_run(File& file, const FileRun& run, bool padded) {
  const std::int64_t align = file.direct_align_bytes();
  const std::int64_t begin = align_down(run.offset, align);
  const std::int64_t end = align_up(run.offset + run.bytes, align);
  const bool whole = begin == run.offset && end == run.offset + run.bytes;
  const FileRun pages = part(run, begin, end);
  if (!file.direct() || run.bytes < direct_bytes_min || !(padded || whole) ||
      !address_suits(file, pages.memory) ||
      pages_cached(file, run.offset, run.bytes) >= pages_of(run.offset, run.bytes)) {
    return read_cached(file, run);
  }
  const Progress progress = read_all(file.direct_descriptor(), pages);
  if (begin + progress.bytes >= run.offset + run.bytes) return {};
  if (progress.error_number != 0 && !refuses_direct(progress.error_number)) {
    return file_error("read", file.path(), progress.error_number);
  }
  // Direct I/O was refused, or ended early: the cached read returns the error, if it is one.
  if (progress.error_number != 0 && progress.bytes == 0) file.stop_direct();
  return read_cached(file, run);
}

Status write_run(File& file, const FileRun& run) {
  const std::int64_t align = file.direct_align_bytes();
  const std::int64_t run_end = run.offset + run.bytes;
  const std::int64_t begin = align_up(run.offset, align);
  const std::int64_t end = align_down(run_end, align);
  if (!file.direct() || end - begin < direct_bytes_min || !direct_suits(file, run)) {
    return write_cached(file, run);
  }
  if (Status head = write_cached(file, part(run, run.offset, begin)); !head) return head;
  const FileRun pages = part(run, begin, end);
  const Progress progress = write_all(file.direct_descriptor(), pages);
  if (progress.bytes < pages.bytes) {
    if (!refuses_direct(progress.error_number)) return write_failed(file, pages, progress);
    if (progress.bytes == 0) file.stop_direct();
    if (Status rest = write_cached(file, part(run, begin + progress.bytes, end)); !rest)
      return rest;
  }
  return write_cached(file, part(run, end, run_end));
}

bool is_cached(const File& file, std::int64_t offset, std::int64_t bytes) {
  if (bytes <= 0) return true;
  const std::int64_t cached = pages_cached(file, offset, bytes);
  return cached < 0 ? samples_cached(file, offset, bytes) : cached >= pages_of(offset, bytes);
}

void read_soon(File& file, std::int64_t offset, std::int64_t bytes) {
  ::posix_fadvise(file.cached_descriptor(), offset, bytes, POSIX_FADV_WILLNEED);
}

}  // namespace tranship::file
