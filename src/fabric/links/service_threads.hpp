// Threads that carry out the commands of all requesters.
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

#include "base/error.hpp"
#include "os/bell.hpp"
#include "os/shared_memory.hpp"

namespace tranship::fabric {

class SlotServer;

/// A set of seats, with one bit for each. Threads: all.
class SeatBits {
 public:
  static constexpr int seats_max = 65536;
  static constexpr int seats_a_word = 64;

  void set(int seat) { word_of(seat).fetch_or(bit(seat)); }
  void clear(int seat) { word_of(seat).fetch_and(~bit(seat)); }
  bool holds(int seat) const { return (word(seat / seats_a_word) & bit(seat)) != 0; }
  /// Clears the bit; returns whether it was set.
  bool take(int seat) { return (word_of(seat).fetch_and(~bit(seat)) & bit(seat)) != 0; }
  std::uint64_t word(int index) const { return words_[static_cast<std::size_t>(index)].load(); }

 private:
  std::atomic<std::uint64_t>& word_of(int seat) {
    return words_[static_cast<std::size_t>(seat / seats_a_word)];
  }
  static std::uint64_t bit(int seat) { return std::uint64_t{1} << (seat % seats_a_word); }

  std::array<std::atomic<std::uint64_t>, seats_max / seats_a_word> words_{};
};

/// The words by which requesters wake service threads; all requesters map them. A peer that
/// overwrites them can delay requests or cause needless checks, but nothing else: every sleep is
/// bounded, every requester is checked four times a second, and the counts are rewritten on each
/// change.
struct ServiceDoorbell {
  /// Bytes of a cache line. Words that different threads write lie in different lines.
  static constexpr std::size_t line = 64;

  alignas(line) Bell bell;
  /// Number of threads that poll the bell without sleeping.
  alignas(line) std::atomic<std::uint32_t> watching;
  std::atomic<std::uint32_t> sleeping;  ///< Number of threads that sleep on the bell.
  alignas(line) SeatBits ready;         ///< Requesters that have submitted commands.
  /// Requesters whose slots a thread watches, so that they need not ring. The thread checks the
  /// slots once more after it has cleared the bit.
  alignas(line) SeatBits served;

  /// Announces a submitted slot; call it after the slot's state was set.
  void ring(int seat) {
    if (served.holds(seat)) return;
    ready.set(seat);
    bell.count();
    if (!served.holds(seat)) wake_one();
  }
  /// Wakes a sleeping thread, unless another one is watching.
  void wake_one() {
    if (watching.load() == 0 && sleeping.load() != 0) bell.wake(1);
  }
};

/// A bounded number of threads that serve all requesters. A thread that is awake serves the next
/// requester that has rung; a sleeping thread is woken only if no thread is watching. So few
/// threads work, and their data stay in their caches.
/// Owns its threads. Threads: add() and remove() from all.
class ServiceThreads {
 public:
  struct Options {
    /// 0: there are no threads, and the owner calls serve_now().
    int threads_max = 8;
    /// How long a thread stays awake after it has answered a call: a requester that has received
    /// memory for a copy soon calls again.
    std::chrono::microseconds spin = spin_default;
  };
  /// A requester's bit in the doorbell.
  struct Seat {
    int number = -1;
    std::shared_ptr<SharedMemory> doorbell;

    void ring() const { reinterpret_cast<ServiceDoorbell*>(doorbell->data())->ring(number); }
  };

  explicit ServiceThreads(Options options);
  ~ServiceThreads();

  /// Adds a requester.
  /// @error out_of_memory if there is no memory, thread or seat left
  Result<Seat> add(std::shared_ptr<SlotServer> server);

  /// Ends the service of a requester; no thread accesses its slots after the return.
  void remove(const Seat& seat);

  /// Without threads: serves the requesters that have rung. Returns whether one was served.
  bool serve_now();
  /// Returns the number of requesters that have a seat, for tests of leaks.
  int taken() const;

 private:
  using Clock = std::chrono::steady_clock;
  /// Service state of one requester, which one thread serves at a time: the thread that has claimed
  /// it. Claiming takes no lock.
  class alignas(ServiceDoorbell::line) SeatState {
   public:
    std::shared_ptr<SlotServer> server;  ///< Changed only while no thread can claim the seat.

    bool is_free() const { return state_.load() == 0; }
    bool is_served() const { return (state_.load() & serving) != 0; }
    void take() { state_.store(taken); }
    void give_back() { state_.store(0); }
    /// Makes the seat unclaimable from now on.
    void leave() { state_.fetch_or(leaving); }
    /// Returns whether the calling thread, and no other, now serves the requester.
    bool claim() {
      std::uint32_t expected = taken;
      return state_.compare_exchange_strong(expected, taken | serving);
    }
    /// Ends a claim. Returns whether remove() waits for that.
    bool release() { return (state_.fetch_and(~serving) & leaving) != 0; }

   private:
    static constexpr std::uint32_t taken = 1;
    static constexpr std::uint32_t serving = 2;
    static constexpr std::uint32_t leaving = 4;
    std::atomic<std::uint32_t> state_{0};
  };
  static constexpr int block_seats = 64;
  using Block = std::array<SeatState, block_seats>;
  /// State of one thread.
  struct Worker {
    std::vector<std::byte> question;  ///< Private copy of a call's question while it is answered.
    Clock::time_point called{};       ///< Time of the last call of a requester that it served.
    int next = 0;                     ///< The seat that it checks first.
    bool served = false;              ///< It has served a requester since it last waited.
    bool waited = false;              ///< It has served no requester since it last waited.
  };

  ServiceDoorbell& bell() const { return *reinterpret_cast<ServiceDoorbell*>(doorbell_->data()); }
  SeatState& state_of(int seat) const {
    const auto block = static_cast<std::size_t>(seat / block_seats);
    return (*blocks_[block].load())[static_cast<std::size_t>(seat % block_seats)];
  }
  Result<int> free_seat();
  bool claim(int seat);
  Status make_doorbell();
  Status start_thread();
  void run();
  bool serve_ready(Worker& worker);
  void serve_all(Worker& worker);
  std::optional<int> take_ready(Worker& worker, int seats);
  enum class After { leave, linger };
  bool serve(Worker& worker, int seat, After after);
  bool linger(Worker& worker, SlotServer& server);
  bool others_ready() const;
  bool serve_turns(Worker& worker, SlotServer& server, int seat);
  bool time_to_look_at_all();
  void wait(Worker& worker, std::uint32_t seen);
  bool watch(const Worker& worker, std::uint32_t seen);
  Clock::duration watch_time(const Worker& worker) const;
  bool begin_watching();
  void count(int watching, int sleeping);
  void write_counts();

  Options options_;
  int watching_max_;
  std::shared_ptr<SharedMemory> doorbell_;  ///< Made with the first seat.
  SeatBits served_;                         ///< The doorbell's `served`, as peers cannot change it.
  std::atomic<bool> stopping_{false};
  std::atomic<int> seats_used_{0};          ///< Every seat that was ever taken is below it.
  std::atomic<Clock::rep> look_at_all_{0};  ///< When all requesters are to be checked.
  std::atomic<int> leaving_{0};             ///< Seats that remove() waits for.
  /// Blocks of states; each is made when its first seat is taken.
  std::array<std::atomic<Block*>, SeatBits::seats_max / block_seats> blocks_{};
  mutable std::mutex mutex_;  ///< guards all following members
  std::condition_variable left_;
  std::vector<std::unique_ptr<Block>> made_;  ///< Owns the blocks.
  int taken_ = 0;
  int watching_ = 0;
  int sleeping_ = 0;
  std::vector<std::thread> threads_;
  Worker here_;  ///< The worker of serve_now().
};

}  // namespace tranship::fabric
