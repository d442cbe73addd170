// Notices of other processes that wait to be read.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "fabric/messages/copy_notice.hpp"

namespace tranship {

/// Keeps notices in the order of their arrival. Threads: all; none waits but in wait().
class NoticeQueue {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// most: Number of notices that may wait to be read.
  explicit NoticeQueue(std::size_t most) : most_(most) {}

  /// @error out_of_memory if as many as may wait are waiting; closed after close()
  Status add(fabric::CopyNotice notice);
  /// Takes all notices; with a sender, those that it has sent.
  std::vector<fabric::CopyNotice> take(const Identity* sender);

  /// Returns a number that changes with each add(), wake() and close().
  std::uint64_t changes() const;
  /// Waits until changes() differs from `seen`, at most until `until`.
  void wait(std::uint64_t seen, Time until) const;
  void wake();
  /// Refuses notices from now on, and drops those that nobody has read.
  void close();

 private:
  const std::size_t most_;
  mutable std::mutex mutex_;  ///< guards all following members
  mutable std::condition_variable changed_;
  std::deque<fabric::CopyNotice> notices_;
  std::uint64_t changes_ = 0;
  bool closed_ = false;
};

}  // namespace tranship
