// The end of a File: the results of its transfers, and its completion.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "channels/file/file.hpp"

namespace tranship {

bool File::forked() const { return ::getpid() != opener_; }

Status File::usable() const {
  if (forked()) {
    return Error{ErrorCode::closed,
                 "'" + path_ +
                     "' was opened by the process that this one was forked "
                     "from",
                 "open it here to use it"};
  }
  if (!closed_.load(std::memory_order_acquire)) return {};
  return Error{ErrorCode::closed, "'" + path_ + "' was closed", "open it again to use it"};
}

Status File::admits(bool reading) const {
  if (closed_.load(std::memory_order_acquire) || (!reading && forked())) return usable();
  if (!reading && !writable_) {
    return Error{ErrorCode::permission, "'" + path_ + "' was opened for reading",
                 "open it for writing to copy into it"};
  }
  if (!reading && unmarked_.load(std::memory_order_acquire)) {
    return Error{ErrorCode::io,
                 "'" + path_ +
                     "' could not be marked as being changed, and so is "
                     "not changed",
                 "look at flush(), which says why"};
  }
  if (reading && !readable_) {
    return Error{ErrorCode::permission, "'" + path_ + "' may be written and not read",
                 "change its permissions to copy from it"};
  }
  return {};
}

std::function<void(const Status&)> File::note_transfer(const std::string& label,
                                                       std::int64_t bytes) {
  if (!writable_ || !usable()) return {};
  std::lock_guard lock(mutex_);
  const std::int64_t number = ++transfers_begun_;
  ++transfers_active_;
  if (!new_file_ && mark_ && !mark_->set()) {
    const int refusal = mark_->add();
    if (refusal != 0) {
      unmarked_.store(true, std::memory_order_release);
      if (failed_.empty()) failed_ = file_error("mark the header of", path_, refusal).text();
    }
    // After a power failure a part of the data may be on the disk: then the mark must be, too.
    if (durable_) (void)sync();
  }
  return [self = shared_from_this(), number, label, bytes](const Status& status) {
    self->end_transfer(number, label, bytes, status);
  };
}

void File::end_transfer(std::int64_t number, const std::string& label, std::int64_t bytes,
                        const Status& status) {
  std::lock_guard lock(mutex_);
  --transfers_active_;
  if (status) {
    bytes_written_ += bytes;
  } else if (failed_.empty()) {
    failed_ = "copy " + std::to_string(number) + " into it (" + std::to_string(bytes) + " bytes, " +
              label + ") ended with: " + status.error().text();
  }
  ended_.notify_all();
}

bool File::wait_for_transfers(std::chrono::nanoseconds timeout) {
  if (forked()) return true;  // the transfers are the parent's, and so is the mutex
  std::unique_lock lock(mutex_);
  return ended_.wait_for(lock, timeout, [&] { return transfers_active_ == 0; });
}

/// Returns the error that makes the file incomplete. Called under the mutex.
Status File::failure() const {
  if (failed_.empty() && !incomplete()) return {};
  const std::string why = failed_.empty() ? "an earlier write to it failed" : failed_;
  return Error{ErrorCode::io, "'" + path_ + "' is incomplete: " + why,
               "open it anew with mode \"w\" and copy the whole array again"};
}

Status File::sync() {
  if (::fdatasync(cached_descriptor_) == 0) return {};
  const int error_number = errno;
  if (error_number == EINVAL || error_number == EROFS) return {};  // nothing to sync there
  mark_incomplete();
  Error error = file_error("flush", path_, error_number);
  error.message += "; the file is incomplete";
  return error;
}

/// Gives the file its name, or removes its mark. Called under the mutex.
Status File::complete() {
  if (new_file_) {
    if (transfers_begun_ == 0 && payload_bytes_ > 0 && new_file_->name_is_taken()) {
      replaced_nothing_ = true;
      return {};
    }
    replaced_nothing_ = false;
    if (Status published = new_file_->publish(durable_); !published) return published;
    new_file_.reset();
    return {};
  }
  if (!mark_ || !mark_->set()) return {};
  if (const int refusal = mark_->remove(); refusal != 0) {
    return file_error("write the header of", path_, refusal);
  }
  return durable_ ? sync() : Status{};
}

/// Waits for the transfers, syncs and completes the file. Called under the mutex, which it releases
/// while it waits.
Status File::finish(std::unique_lock<std::mutex>& lock) {
  while (true) {
    ended_.wait(lock, [&] { return transfers_active_ == 0; });
    if (Status failed = failure(); !failed) return failed;
    const std::int64_t begun = transfers_begun_;
    lock.unlock();
    Status synced = sync();
    lock.lock();
    if (!synced) return synced;
    if (transfers_begun_ != begun) continue;
    if (Status completed = complete(); !completed) return completed;
    transfers_flushed_ = begun;
    return {};
  }
}

/// Returns what a new file lacks. Called under the mutex, when no transfer is in flight and all
/// written bytes are on the disk: only then does reserved space without data count as a hole.
std::string File::missing_here() const {
  if (!is_new_ || payload_bytes_ <= 0 || !failure()) return {};
  if (replaced_nothing_) {
    return "nothing was copied into it, and the file that was there stays";
  }
  std::int64_t hole = -1;
  const bool dense = payload_bytes_ == bytes_min_ - head_bytes_;
  if (dense && lies_here()) {
    const off_t found = ::lseek(cached_descriptor_, head_bytes_, SEEK_HOLE);
    if (found >= 0 && found < bytes_min_) hole = found;
  }
  if (bytes_written_ >= payload_bytes_ && hole < 0) return {};
  if (bytes_written_ < payload_bytes_) {
    return std::to_string(bytes_written_) + " of its " + std::to_string(payload_bytes_) +
           " bytes were copied into it, the rest is zeros";
  }
  return "nothing was copied to byte " + std::to_string(hole - head_bytes_) +
         " of its elements, which is zeros";
}

std::string File::missing() const {
  if (forked()) return {};
  std::lock_guard lock(mutex_);
  const std::string text = missing_here();
  return text.empty() ? text : "'" + path_ + "' was not written whole: " + text;
}

Status File::flush() {
  if (Status status = usable(); !status) return status;
  if (!writable_) return {};
  std::unique_lock lock(mutex_);
  return finish(lock);
}

Status File::close() {
  if (forked() || closed_.load(std::memory_order_acquire)) return {};
  std::unique_lock lock(mutex_);
  Status status;
  if (writable_ && (new_file_ || transfers_begun_ != transfers_flushed_)) status = finish(lock);
  closed_.store(true, std::memory_order_release);
  new_file_.reset();
  return status;
}

void File::discard() {
  if (forked()) return;
  std::lock_guard lock(mutex_);
  closed_.store(true, std::memory_order_release);
  new_file_.reset();
}

/// Completes the file when the last reference to it goes away; no transfer is in flight then.
void File::let_go() {
  if (forked() || !writable_ || closed_.load(std::memory_order_acquire)) return;
  std::unique_lock lock(mutex_);
  if (!failure() || (!new_file_ && (!mark_ || !mark_->set()))) return;
  if (new_file_) {
    if (transfers_begun_ == 0 && payload_bytes_ > 0) return;
    (void)sync();
    if (const std::string text = missing_here(); !text.empty()) {
      std::fprintf(
          stderr,
          "tranship: '%s' was not made: %s when it was dropped; call flush() or close() to "
          "make it as it is\n",
          path_.c_str(), text.c_str());
      return;
    }
  }
  if (Status status = finish(lock); !status) {
    std::fprintf(stderr, "tranship: %s\n", status.error().text().c_str());
  }
}

}  // namespace tranship
