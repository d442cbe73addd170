// Threads that carry out the commands of many requesters.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "os/bell.hpp"
#include "os/shared_memory.hpp"
#include "tranship/error.hpp"

namespace tranship {

class SlotServer;

/// What all requesters share with the service threads: a bell, and a bit for each requester that
/// has submitted something. A peer that scribbles over it can cause late or spurious looks and
/// nothing else: every sleep is bounded, and every requester is looked at four times a second.
struct ServiceDoorbell {
  static constexpr int seats_max = 65536;

  Bell bell;
  std::atomic<std::uint32_t> watching;  ///< Threads that see a ring without being woken.
  std::array<std::atomic<std::uint64_t>, seats_max / 64> ready;

  void mark(int seat) { word(seat).fetch_or(bit(seat), std::memory_order_seq_cst); }
  void ring(int seat) {
    mark(seat);
    bell.count();
    wake_one();
  }
  /// Has a thread that sleeps look, unless one is looking.
  void wake_one() {
    if (watching.load(std::memory_order_seq_cst) == 0) bell.wake(1);
  }
  /// Whether the bit was set; it is not any more.
  bool take(int seat) {
    return (word(seat).fetch_and(~bit(seat), std::memory_order_seq_cst) & bit(seat)) != 0;
  }

 private:
  std::atomic<std::uint64_t>& word(int seat) { return ready[static_cast<std::size_t>(seat) / 64]; }
  static std::uint64_t bit(int seat) { return std::uint64_t{1} << (seat % 64); }
};

/// A bounded number of threads that serve all requesters: whichever is awake serves who has rung,
/// and another one is woken only if all that are awake have something to do. So the threads that
/// work are few, and what they work on is in their caches.
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
    int number = -1;
    std::shared_ptr<SharedMemory> doorbell;

    void ring() const { reinterpret_cast<ServiceDoorbell*>(doorbell->data())->ring(number); }
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
  using Clock = std::chrono::steady_clock;
  struct Place {
    std::shared_ptr<SlotServer> server;  ///< Null where free.
    bool serving = false;
    bool rang = false;  ///< while it was being served
  };
  /// What a thread has of its own.
  struct Worker {
    std::vector<std::byte> question;  ///< A call's, while it is answered.
    Clock::time_point called{};       ///< When a requester last called.
    int next = 0;                     ///< The seat at which it looks first.
    bool watched = false;             ///< It has seen a ring for which nobody was woken.
  };

  ServiceDoorbell& bell() { return *reinterpret_cast<ServiceDoorbell*>(doorbell_->data()); }
  Status make_doorbell();
  Status start_thread();
  void run();
  bool serve_ready(Worker& worker);
  bool serve_all(Worker& worker);
  std::optional<int> take_ready(Worker& worker, int seats);
  bool serve(Worker& worker, int seat);
  bool time_to_look_at_all();
  void wait(Worker& worker, std::uint32_t seen);

  Options options_;
  std::shared_ptr<SharedMemory> doorbell_;  ///< Made with the first seat.
  std::atomic<bool> stopping_{false};
  std::atomic<int> seats_used_{0};  ///< No seat beyond was ever taken.
  std::atomic<Clock::rep> look_at_all_{0};
  mutable std::mutex mutex_;  ///< guards what follows
  std::condition_variable served_;
  std::vector<Place> places_;
  int taken_ = 0;
  std::vector<std::thread> threads_;
  Worker here_;  ///< serve_now()'s
};

}  // namespace tranship
