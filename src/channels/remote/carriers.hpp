// Threads that copy between this process's memory and a peer's without slots.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "fabric/links/remote_array.hpp"

namespace tranship::fabric {

/// The kernel copies at the rate of one core, and checks each page: several threads make a link
/// between two processes as fast as a copy in one. Copies of a BulkCarrier wait on these threads
/// too, so that no other thread has to. Threads: all members from all.
class Carriers {
 public:
  struct Job {
    Requester::Transfer transfer;
    std::shared_ptr<Link> link;
    std::shared_ptr<BulkCarrier::Memory> memory{};   ///< Set: a carrier moves it, not the kernel.
    std::shared_ptr<std::atomic<bool>> cancelled{};  ///< Set with `memory`.
    bool scattered = false;  ///< Slots are nearly as fast: take_scattered() may return it.
  };
  /// How a job ended; nothing if it must take another way. Called on a carrier's thread.
  using OnEnd = std::function<void(Job job, std::optional<Status> status)>;

  Carriers(int threads, OnEnd on_end);
  /// Ends what was posted first.
  ~Carriers();
  Carriers(const Carriers&) = delete;
  Carriers& operator=(const Carriers&) = delete;

  void post(Job job);
  /// Removes and returns the scattered job that was posted last and that no thread has begun, if
  /// `usable` says that of its link.
  std::optional<Job> take_scattered(const std::function<bool(const Link&)>& usable);

 private:
  void run();

  OnEnd on_end_;
  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<Job> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tranship::fabric
