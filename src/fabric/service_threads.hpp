// Threads that carry out the commands of many requesters.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "os/bell.hpp"
#include "os/shared_memory.hpp"
#include "tranship/error.hpp"

namespace tranship {

class SlotServer;

/// What the requesters of one service thread share with it: a bell, and a bit for each of them that
/// has submitted something. A peer that scribbles over it can cause late or spurious looks and
/// nothing else: every sleep is bounded, and each requester is looked at after it.
struct ServiceDoorbell {
  static constexpr int seats_max = 4096;

  Bell bell;
  std::array<std::atomic<std::uint64_t>, seats_max / 64> ready;

  void ring(int seat) {
    const auto index = static_cast<std::size_t>(seat);
    ready[index / 64].fetch_or(std::uint64_t{1} << (index % 64), std::memory_order_seq_cst);
    bell.ring();
  }
};

/// A bounded number of threads, each of which serves the requesters that were assigned to it. The
/// first requesters get a thread each; later ones share those.
/// Owns its threads. Threads: add() and remove() from all.
class ServiceThreads {
 public:
  struct Options {
    /// 0: there are none, and whoever made this calls serve_now().
    int threads_max = 8;
    /// How long a thread stays awake after a call: a requester that has asked for room, and copies,
    /// soon calls again.
    std::chrono::microseconds spin{20};
  };
  /// Where a requester is served.
  struct Seat {
    int thread = -1;
    int number = -1;
    std::shared_ptr<SharedMemory> doorbell;

    ServiceDoorbell& bell() const { return *reinterpret_cast<ServiceDoorbell*>(doorbell->data()); }
    void ring() const { bell().ring(number); }
  };

  explicit ServiceThreads(Options options) : options_(options) {}
  ~ServiceThreads();

  /// @error out_of_memory if there is no memory, thread or seat left
  Result<Seat> add(std::shared_ptr<SlotServer> server);

  /// When it returns the requester is served no longer.
  void remove(const Seat& seat);

  /// Without threads: serves the requesters that have rung. Returns whether there was anything.
  bool serve_now();
  /// How many requesters are served, for tests of leaks.
  int taken() const;

 private:
  struct Worker {
    std::shared_ptr<SharedMemory> doorbell;
    std::mutex mutex;  ///< guards what follows
    std::condition_variable served;
    std::vector<std::shared_ptr<SlotServer>> seats;  ///< Empty where free.
    int taken = 0;
    int serving = -1;
    std::chrono::steady_clock::time_point called{};  ///< The thread's own: when any last called.
    std::thread thread;

    ServiceDoorbell& bell() { return *reinterpret_cast<ServiceDoorbell*>(doorbell->data()); }
  };

  Result<Worker*> worker_for_another();
  void run(Worker& worker);
  bool serve_ready(Worker& worker, bool all);
  bool serve(Worker& worker, int seat);
  void wait(Worker& worker, std::uint32_t seen);

  Options options_;
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;  ///< guards what follows
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace tranship
