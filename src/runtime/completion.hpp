// The ends of transfers, and of work outside the runtime.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "plan/plan.hpp"

namespace tranship {

/// The end of one transfer. Shared between the caller and the runtime; any thread may call any
/// member. It ends exactly once, and never hangs: a closed engine ends all its events (I9).
class Completion {
 public:
  bool done() const { return done_.load(std::memory_order_acquire); }

  /// Waits for the end. @error timeout if it has not come by then; else how the transfer ended
  Status wait(std::optional<std::chrono::nanoseconds> timeout) const;

  /// Calls `callback` at the end, on the thread that ends it; at once if it has ended.
  void on_end(std::function<void(const Status&)> callback);

  /// How it ended. Only after done().
  const Status& status() const { return status_; }

  /// Ends it. Called by the runtime alone, without its lock.
  void end(Status status);

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable condition_;
  std::atomic<bool> done_{false};
  Status status_;
  std::vector<std::function<void(const Status&)>> callbacks_;
};

/// Work that ends outside the runtime and says so only when it is asked, such as a copy that a GPU
/// carries by itself. ThreadDriver::completion_of() makes a Completion of it. Threads: all.
class PolledEvent {
 public:
  virtual ~PolledEvent() = default;
  /// Whether the work has ended, well or not.
  virtual bool done() const = 0;
  /// How it ended, once it is done.
  virtual Status status() const = 0;
};

}  // namespace tranship
