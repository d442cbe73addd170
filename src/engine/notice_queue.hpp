// Notices of other processes that wait to be read.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "fabric/messages/copy_notice.hpp"

namespace tranship {

/// Keeps notices in the order of their arrival. Threads: all; none waits but in wait().
class NoticeQueue {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Senders that may use up their limits before others are refused, too: processes of other
  /// machines say themselves who they are.
  static constexpr std::size_t full_senders_most = 16;

  /// most: Number of notices of one process that may wait to be read.
  explicit NoticeQueue(std::size_t most) : most_(most) {}

  /// @error out_of_memory if as many of its sender as may wait are waiting, or `full_senders_most`
  ///        times as many of all; closed after close()
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
  using Sender = std::tuple<std::int64_t, std::uint64_t, std::string, std::string, std::string>;
  static Sender sender_of(const fabric::CopyNotice& notice);

  const std::size_t most_;
  mutable std::mutex mutex_;  ///< guards all following members
  mutable std::condition_variable changed_;
  std::deque<fabric::CopyNotice> notices_;
  std::map<Sender, std::size_t> waiting_;  ///< how many of each sender; none has 0
  std::uint64_t changes_ = 0;
  bool closed_ = false;
};

}  // namespace tranship
