// Open files, as ends of copies.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "channels/file/npy_mark.hpp"
#include "os/file_error.hpp"
#include "os/file_map.hpp"
#include "os/mapped_files.hpp"
#include "os/new_file.hpp"
#include "runtime/channel.hpp"

namespace tranship {

enum class FileMode {
  read,        ///< the file must exist and hold `bytes_min` bytes
  write,       ///< created or extended to `bytes_min`; bytes already there are kept
  read_write,  ///< as write, and it must also be readable
  update,      ///< as read_write, and it must exist, a .npy file as long as its header says
  replace,     ///< a new file, which gets the path's name at flush() or close(); see NewFile
};

/// Returns the mode that Python and C programs call "r", "w" or "r+".
/// @error invalid_argument for any other text
Result<FileMode> file_mode_from(std::string_view text);

/// How a file is opened.
struct FileOptions {
  FileMode mode = FileMode::read;
  /// Bytes that the array needs, including its offset in the file. Space for them is reserved at
  /// once, so that a full disk is an error of open() and not of a copy.
  std::int64_t bytes_min = 0;
  /// Whether large runs bypass the page cache where the file system allows it. Turn it off when the
  /// file fits in memory and is read again soon.
  bool direct = true;
  /// FileMode::replace: first bytes of the file, counted in `bytes_min`.
  std::string head{};
  /// FileMode::replace: bytes of all elements. A file that is destroyed without flush() or close()
  /// gets its name if copies of so many bytes have succeeded.
  std::int64_t payload_bytes = 0;
  /// Whether flush() and close() sync the folder, too, so that the name survives a power failure.
  bool durable = false;
  /// Whether the file has the header of a .npy file, which is marked while the file is changed in
  /// place; see NpyMark.
  bool npy = false;
};

/// A regular file or a block device. Owns two descriptors: one through the page cache, and one that
/// bypasses it (O_DIRECT). The kernel keeps the two coherent page by page; see file_io.hpp.
/// Counts the transfers into the file (note_transfer): flush() waits for those in flight, and fails
/// if one of them failed or was cancelled. In a forked child of the process that opened it, the
/// object does nothing.
/// Threads: all. A channel's requests must end before the file is destroyed.
class File : public Attachment, public std::enable_shared_from_this<File> {
 public:
  /// Opens a file.
  /// @error not_found if there is no such file (reading) or folder (writing)
  /// @error permission if the operating system forbids it or the file system is read-only
  /// @error invalid_argument if it is a directory, a pipe or a terminal
  /// @error out_of_range if it is too short to be read, or a .npy file that was cut
  /// @error io if the disk is full or refuses; a file that was made for it is removed again
  static Result<std::shared_ptr<File>> open(const std::string& path, const FileOptions& options);
  ~File() override;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// Returns the size of the file now, in bytes (a system call).
  std::int64_t size() const;
  /// Returns the number by which the kernel knows the file where a process has mapped it. The first
  /// call asks for it.
  FileNumber number() const;
  const std::string& path() const { return path_; }
  bool readable() const { return readable_; }
  bool writable() const { return writable_; }
  /// Returns whether large runs bypass the page cache.
  bool direct() const { return direct_in_use_.load(std::memory_order_relaxed); }

  /// Waits until the transfers into the file have ended and their bytes are on the disk. Then the
  /// file is complete: a new file gets its name, and the mark in a .npy header is removed. Later
  /// transfers change the file in place. A new file without any transfer replaces no other file.
  /// @error io if the disk refuses, or if an earlier transfer to this File failed or was cancelled
  /// @error closed after close(), and in a child of the process that opened it
  Status flush();

  /// Waits for the transfers into the file for at most `timeout`; returns whether all have ended. A
  /// child of the process that opened it has none.
  bool wait_for_transfers(std::chrono::nanoseconds timeout);

  /// Returns what a new file lacks, as a text; empty if all of it was written, or if it is not new.
  /// What no copy has written is zeros. Where the file system does not tell what was written, the
  /// bytes of the copies are counted.
  std::string missing() const;

  /// Flushes the file if something was written since the last flush(), or if it is new. Later
  /// requests are refused. If it fails, no new file gets the name. It may be called again.
  /// @error as flush()
  Status close();

  /// Closes the file without flush(): a new file gets no name, and a mark in the header stays.
  void discard();

  /// Checks that a request may read the file, or write it.
  /// @error permission if it was opened for the other direction
  /// @error closed after close(), and to write in a child of the process that opened it
  /// @error io if its header could not be marked before it is changed
  Status admits(bool reading) const;

  std::function<void(const Status&)> note_transfer(const std::string& label,
                                                   std::int64_t bytes) override;

  /// Writes back and drops the file's pages in the page cache, so that the next read comes from the
  /// disk. For measurements.
  void forget_cached();

  /// Returns the object that another channel keeps with this file. The first call makes it; it
  /// lives as long as the file.
  Result<std::shared_ptr<void>> companion(
      const std::function<Result<std::shared_ptr<void>>()>& make);

  /// Returns a map of the file from its start on, of at least `end_bytes`, for short runs; null if
  /// there is none. It is kept for later calls where the file lies on this machine. Elsewhere a new
  /// one lets the file system look for changes, and there is none for writing: the pages around
  /// what is stored would be written as well, and may have been changed by another machine.
  std::shared_ptr<const FileMap> view(std::int64_t end_bytes, FileMap::Access access);

  /// Notes that so many bytes of a view may have become resident; gives them back now and then.
  void note_viewed(const FileMap& view, std::int64_t bytes);

  // For the channel.
  int cached_descriptor() const { return cached_descriptor_; }
  int direct_descriptor() const { return direct_descriptor_; }
  /// Returns the unit of file offsets and lengths of direct I/O; never less than a page.
  std::int64_t direct_align_bytes() const { return direct_align_bytes_; }
  /// Returns the unit of memory addresses of direct I/O.
  std::int64_t memory_align_bytes() const { return memory_align_bytes_; }
  /// Turns direct I/O off, after the file system accepted O_DIRECT but refused an operation.
  void stop_direct() { direct_in_use_.store(false, std::memory_order_relaxed); }
  /// Records that a write failed, so that the file has only a part of the array.
  void mark_incomplete() { incomplete_.store(true, std::memory_order_relaxed); }
  bool incomplete() const { return incomplete_.load(std::memory_order_relaxed); }

 private:
  explicit File(std::string path) : path_(std::move(path)) {}
  Status open_cached(const FileOptions& options);
  Status open_new(const FileOptions& options);
  Status reserve(std::int64_t bytes_min, bool created);
  void open_direct();
  int reopen(int flags) const;
  bool lies_here() const;
  Status usable() const;
  /// Whether this is a child of the process that opened the file: the threads that end transfers,
  /// and those that may hold the mutex, live in the parent.
  bool forked() const;
  Status failure() const;
  Status sync();
  Status finish(std::unique_lock<std::mutex>& lock);
  Status complete();
  std::string missing_here() const;
  void end_transfer(std::int64_t number, const std::string& label, std::int64_t bytes,
                    const Status& status);
  void let_go();

  std::string path_;
  int cached_descriptor_ = -1;
  int direct_descriptor_ = -1;
  std::int64_t direct_align_bytes_ = 4096;
  std::int64_t memory_align_bytes_ = 4096;
  bool readable_ = false;
  bool writable_ = false;
  std::atomic<bool> direct_in_use_ = false;
  std::atomic<bool> incomplete_ = false;
  std::atomic<bool> closed_ = false;
  std::atomic<bool> unmarked_ = false;  ///< its header could not be marked
  pid_t opener_ = 0;
  bool durable_ = false;
  bool is_new_ = false;
  std::int64_t payload_bytes_ = 0;
  mutable std::once_flag numbered_;
  mutable FileNumber number_;
  std::int64_t bytes_min_ = 0;  ///< of a new file: its length
  std::int64_t head_bytes_ = 0;
  std::mutex companion_mutex_;
  std::shared_ptr<void> companion_;

  std::mutex view_mutex_;
  std::array<std::shared_ptr<const FileMap>, 2> views_;  ///< by access
  std::atomic<std::int64_t> viewed_bytes_ = 0;

  mutable std::mutex mutex_;  ///< guards what follows
  std::condition_variable ended_;
  std::unique_ptr<NewFile> new_file_;    ///< until it has its name; null: the file has its name
  std::unique_ptr<file::NpyMark> mark_;  ///< null: not a .npy file that is changed in place
  bool replaced_nothing_ = false;  ///< the old file stays, since nothing was copied into a new one
  std::int64_t transfers_begun_ = 0;
  std::int64_t transfers_active_ = 0;
  std::int64_t transfers_flushed_ = 0;  ///< number of transfers begun before the last flush()
  std::int64_t bytes_written_ = 0;      ///< by transfers that succeeded
  std::string failed_;                  ///< the first failed transfer, and its error
};

}  // namespace tranship
