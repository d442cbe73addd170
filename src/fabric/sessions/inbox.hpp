// Tasks for the progress thread.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "os/descriptor.hpp"

namespace tranship::fabric {

/// A queue of tasks from any thread, which the progress thread runs in order. Tasks that are posted
/// after close() are dropped.
/// Threads: post() from all, all other functions from the progress thread.
class Inbox {
 public:
  Inbox();
  ~Inbox();
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  /// Posts a task. Returns false, and drops the task, after close().
  bool post(std::function<void()> task);

  /// Runs the posted tasks. Returns whether there were any.
  bool run();
  /// Returns whether the caller may sleep: no task is waiting, and descriptor() becomes readable
  /// with the next one.
  bool arm();
  /// Makes descriptor() unreadable again after a wake-up.
  void drain();
  /// Refuses tasks from now on, and runs those that were posted before.
  void close();
  int descriptor() const { return descriptor_.get(); }

 private:
  std::mutex mutex_;
  std::vector<std::function<void()>> tasks_;
  std::vector<std::function<void()>> running_;
  bool asleep_ = false;
  bool closed_ = false;
  FileDescriptor descriptor_;
};

}  // namespace tranship::fabric
