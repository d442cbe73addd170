// The thread of an engine that pins the memory of other processes, for which no copy waits.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "gpu/pinned_parts.hpp"
#include "os/shared_memory.hpp"

namespace tranship {

/// Pins shared memories part by part, as their pages appear, and unpins what their owners have
/// given back to the system, within a second or two. It does not keep a memory alive. Each call of
/// the driver is short, and none begins while the first copies of a memory run, since the driver
/// may hold locks meanwhile that copies need. Threads: all.
class BackgroundPinner {
 public:
  BackgroundPinner() = default;
  ~BackgroundPinner() { stop(); }
  BackgroundPinner(const BackgroundPinner&) = delete;
  BackgroundPinner& operator=(const BackgroundPinner&) = delete;

  /// Pins this memory from now on. `parts` is its registration. Nothing is pinned where the system
  /// refuses a thread, and after stop().
  void add(const std::shared_ptr<SharedMemory>& memory, const std::shared_ptr<PinnedParts>& parts);
  /// Notes that a copy begins that would use this range of an added memory.
  void want(PinnedParts& parts, std::int64_t offset, std::int64_t bytes);
  /// Waits for the part that is being pinned, and pins no more.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  /// A memory that add() was given.
  struct AddedMemory {
    std::weak_ptr<SharedMemory> memory;
    std::weak_ptr<PinnedParts> parts;  ///< Used only while the memory is alive.
  };
  /// What one look at all memories has done.
  struct Look {
    bool pinned = false;
    std::vector<std::uint64_t> over;  ///< Memories that are there no more.
  };
  void run();
  static Look look(const std::map<std::uint64_t, AddedMemory>& added, bool pins, bool unpins);
  void sleep(std::unique_lock<std::mutex>& lock, Clock::time_point now);

  std::mutex mutex_;  ///< Guards what follows.
  std::condition_variable wake_;
  std::map<std::uint64_t, AddedMemory> memories_;  ///< By the order in which they were added.
  std::uint64_t added_ = 0;
  Clock::time_point held_until_;  ///< No part is pinned before this time.
  Clock::time_point awake_until_;
  Clock::time_point unpins_after_;  ///< When it looks next for what was given back.
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tranship
