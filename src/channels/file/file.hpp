// An open file as one end of a copy.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/error.hpp"
#include "channels/file/new_file.hpp"
#include "channels/file/npy_mark.hpp"
#include "runtime/channel.hpp"

namespace tranship {

enum class FileMode {
  read,        ///< the file must exist and hold `bytes_min` bytes
  write,       ///< created or extended to `bytes_min`; bytes already there are kept
  read_write,  ///< as write, and it must also be readable
  update,      ///< as read_write, and it must exist
  replace,     ///< a new file, which takes the path's name at flush() or close(); see NewFile
};

struct FileOptions {
  FileMode mode = FileMode::read;
  /// The bytes that the array needs, its offset in the file included. Space for them is reserved at
  /// once, so that a full disk is an error here and not in the middle of a copy.
  std::int64_t bytes_min = 0;
  /// Go around the page cache for large runs where the file system lets us. Turn it off when the
  /// file fits memory and is read again soon.
  bool direct = true;
  /// FileMode::replace: what the file begins with, within `bytes_min`.
  std::string head{};
  /// FileMode::replace: bytes of all elements. A file that is let go of without flush() or close()
  /// takes its name if copies of so many bytes have ended well.
  std::int64_t payload_bytes = 0;
  /// flush() and close() write the folder to the disk, too: the name survives a power failure.
  bool durable = false;
  /// It has the header of a .npy file, which says while the file is changed in place that it is
  /// not whole; see NpyMark.
  bool npy = false;
};

/// A regular file or a block device. Owns two descriptors of it: one through the page cache, one
/// around it (O_DIRECT). The kernel keeps the two coherent page by page; see file_io.hpp.
/// It counts the transfers into it (note_transfer): flush() waits for those under way, and fails if
/// one of them failed or was cancelled. In a child of the process that opened it, it does nothing.
/// Threads: all functions from any thread. A channel's requests must end before it is destroyed.
class File : public Attachment, public std::enable_shared_from_this<File> {
 public:
  /// @error not_found if there is no such file (reading) or folder (writing)
  /// @error permission if the operating system forbids it or the file system is read-only
  /// @error invalid_argument if it is a directory, a pipe or a terminal
  /// @error out_of_range if it is too short to be read
  /// @error io if the disk is full or refuses; a file that was made for it is removed again
  static Result<std::shared_ptr<File>> open(const std::string& path, const FileOptions& options);
  ~File() override;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// Bytes that the file has now (a system call).
  std::int64_t size() const;
  /// Whether both are the same file, by whatever names they were opened.
  bool same_as(const File& other) const;
  const std::string& path() const { return path_; }
  bool readable() const { return readable_; }
  bool writable() const { return writable_; }
  /// Whether large runs go around the page cache.
  bool direct() const { return direct_in_use_.load(std::memory_order_relaxed); }

  /// Waits until the transfers into the file have ended and what they wrote is on the disk; then
  /// the file is whole: a new one takes its name, and a mark in the header is taken away. What is
  /// written later changes the file in place. A new file into which nothing was transferred
  /// replaces no other.
  /// @error io if the disk refuses, or if an earlier transfer to this File failed or was cancelled
  /// @error closed after close(), and in a child of the process that opened it
  Status flush();

  /// Waits for the transfers into the file, at most so long; whether all have ended.
  bool wait_for_transfers(std::chrono::nanoseconds timeout);

  /// flush() if something was written since the last one, or the file is new. Later requests are
  /// refused. If it fails, nothing is left under the name of a new file. May be repeated.
  /// @error as flush()
  Status close();

  /// Closes without flush(): a new file gets no name, and a mark stays.
  void discard();

  /// Whether a request may read it, or write it.
  /// @error permission if it was opened for the other direction
  /// @error closed; io if its header could not be marked before it is changed
  Status admits(bool reading) const;

  std::function<void(const Status&)> note_transfer(const std::string& label,
                                                   std::int64_t bytes) override;

  /// Writes back what the page cache holds of the file and drops it, so that the next read comes
  /// from the disk: for measuring.
  void forget_cached();

  /// What another channel has made for this file: made once, kept as long as the file is open.
  Result<std::shared_ptr<void>> companion(
      const std::function<Result<std::shared_ptr<void>>()>& make);

  // For the channel.
  int cached_descriptor() const { return cached_descriptor_; }
  int direct_descriptor() const { return direct_descriptor_; }
  /// File offsets and lengths of direct I/O are multiples of this; never less than a page.
  std::int64_t direct_align_bytes() const { return direct_align_bytes_; }
  /// Addresses of direct I/O are multiples of this.
  std::int64_t memory_align_bytes() const { return memory_align_bytes_; }
  /// The file system took O_DIRECT at open but refuses the operations.
  void stop_direct() { direct_in_use_.store(false, std::memory_order_relaxed); }
  /// A write failed: the file holds a part of the array only.
  void mark_incomplete() { incomplete_.store(true, std::memory_order_relaxed); }
  bool incomplete() const { return incomplete_.load(std::memory_order_relaxed); }

 private:
  explicit File(std::string path) : path_(std::move(path)) {}
  Status open_cached(const FileOptions& options);
  Status open_new(const FileOptions& options);
  Status reserve(std::int64_t bytes_min, bool created);
  void open_direct();
  int reopen(int flags) const;
  Status usable() const;
  Status failure() const;
  Status sync();
  Status finish(std::unique_lock<std::mutex>& lock);
  Status complete();
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
  std::atomic<bool> unmarked_ = false;  ///< it should bear a mark and does not
  pid_t opener_ = 0;
  bool durable_ = false;
  std::int64_t payload_bytes_ = 0;
  std::mutex companion_mutex_;
  std::shared_ptr<void> companion_;

  mutable std::mutex mutex_;  ///< guards what follows
  std::condition_variable ended_;
  std::unique_ptr<file::NewFile>
      new_file_;                         ///< until it has its name; null: the file is in its place
  std::unique_ptr<file::NpyMark> mark_;  ///< null: not a .npy file that is changed in place
  std::int64_t transfers_begun_ = 0;
  std::int64_t transfers_active_ = 0;
  std::int64_t transfers_flushed_ = 0;  ///< of those begun
  std::int64_t bytes_written_ = 0;      ///< by transfers that ended well
  std::string failed_;                  ///< the first transfer that failed, and why
};

/// What the operating system refused, as an Error whose text says what to do about it.
/// `operation` is such as "open" or "write".
Error file_error(const char* operation, const std::string& path, int error_number);

}  // namespace tranship
