// A channel carries requests between two memories. Every folder under channels/ implements this
// interface and passes the one conformance suite (tests/conformance).
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "data/payload.hpp"

namespace tranship {

/// The object that a place belongs to when it is not plain memory of this process: an open file, or
/// an array of another process. Each channel expects its own derived type.
class Attachment {
 public:
  virtual ~Attachment() = default;

  /// Called when a transfer of `bytes` into the attachment is submitted. Returns a function that is
  /// called with the transfer's status on the thread that ends it; empty: none.
  virtual std::function<void(const Status&)> note_transfer(const std::string& label,
                                                           std::int64_t bytes) {
    (void)label, (void)bytes;
    return {};
  }
};

/// One end of a request. Loop nest offsets count from `address`, or, with an attachment, from the
/// start of the attached array (for a file: from `address` taken as a byte offset in the file).
struct Place {
  std::byte* address = nullptr;
  Attachment* attachment = nullptr;
};

/// A piece of a transfer that a channel carries at once. What the payload refers to stays valid
/// until the request has finished.
struct Request {
  /// In a form that the channel carries(), or in plain nests.
  Payload payload;
  Place source;
  Place target;
  std::int64_t bytes = 0;  ///< of the payload
  std::uint64_t tag = 0;   ///< the submitter's own; comes back in Finished
  int priority = 0;        ///< of the transfer, for channels whose hardware knows priorities
  bool cold = false;       ///< use streaming stores: the data does not fit the caches
  /// Predictions of the plan, for simulated channels: contiguous bytes in a tile (0: as in the
  /// nests), and the rate at which this hop converts (0: it does not convert).
  std::int64_t run_bytes = 0;
  double converts_bytes_per_second = 0;
};

struct Finished {
  std::uint64_t tag = 0;
  Status status;
};

/// Which indexed nests a channel carries as they are.
enum class Lists {
  none,
  runs,  ///< those that move nothing but contiguous runs
  all,
};

/// What a channel can carry at once and how it wants to be driven.
struct Capabilities {
  int width = 1;                         ///< threads that may call submit() at the same time
  bool synchronous = true;               ///< a request has finished when submit() returns
  std::int64_t request_bytes_max = 0;    ///< 0: no limit
  std::int64_t bytes_in_flight_max = 0;  ///< bytes that may be submitted and not finished
  Lists lists = Lists::none;
  bool run_lists = false;  ///< It carries lists of runs as they are.
  bool casts = false;      ///< it carries nests that convert numbers
};

/// Returns whether a channel carries a payload in its form.
bool carries(const Capabilities& channel, const Payload& payload);

/// Threads: submit() from up to `width` threads; poll() and idle() from the thread that submits
/// (one thread, if the channel is not synchronous); wake() from any thread.
class Channel {
 public:
  virtual ~Channel() = default;

  virtual const std::string& name() const = 0;
  virtual const Capabilities& capabilities() const = 0;

  /// Starts `request`. A synchronous channel carries it here and returns how it ended; another
  /// returns success, or an error if it could not start, and reports the end through poll().
  virtual Status submit(const Request& request) = 0;

  /// Moves up to `finished.size()` ends of requests into `finished`; returns how many.
  virtual std::size_t poll(std::span<Finished> finished) {
    (void)finished;
    return 0;
  }

  /// Sleeps until a request may have finished, wake() was called, or `at_most` has passed.
  virtual void idle(std::chrono::nanoseconds at_most);

  /// Ends the current or next idle() of every thread.
  virtual void wake();

  /// Lets the request with this tag end early, as cancelled, if it may wait without a bound. It
  /// ends through poll() in any case. Called by the thread that submits.
  virtual void cancel(std::uint64_t tag) { (void)tag; }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  std::uint64_t wakes_ = 0;
  std::uint64_t wakes_seen_ = 0;
};

}  // namespace tranship
