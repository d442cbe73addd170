// A counter that threads of several processes wait for.
#pragma once

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>

namespace tranship {

/// How long a thread looks for what it waits for before it sleeps: a sleep and its end take longer.
constexpr std::chrono::microseconds spin_default{20};

/// A counter that some threads ring and others wait for. It may lie in memory that several
/// processes map, and nothing that is read from it is trusted: a peer that scribbles over it can
/// cause spurious or late wake-ups of its own link and nothing else (every sleep is bounded).
/// Threads: all. Cost: ring() is two atomic operations while no thread sleeps.
class Bell {
 public:
  void ring() {
    count();
    if (sleepers_.load(std::memory_order_seq_cst) != 0) wake(INT_MAX);
  }
  /// The two halves of ring(), for callers that find out by other means whether a thread sleeps.
  void count() { rings_.fetch_add(1, std::memory_order_seq_cst); }
  void wake(int sleepers_max);

  /// Returns the count to pass to wait(); read it before looking for work.
  std::uint32_t rings() const { return rings_.load(std::memory_order_seq_cst); }

  /// Eases the core between two looks at what another core writes.
  static void pause();

  /// Calls `look` again and again until it returns true, or until `end`; returns whether it did.
  /// For what comes sooner than a sleep and its end. `yields`: Whether other threads may have the
  /// core now and then.
  template <typename Look>
  static bool look_until(std::chrono::steady_clock::time_point end, bool yields, Look&& look) {
    constexpr int looks_per_clock_reading = 32;
    while (std::chrono::steady_clock::now() < end) {
      for (int k = 0; k < looks_per_clock_reading; ++k) {
        if (look()) return true;
        pause();
      }
      if (yields) yield();
    }
    return look();
  }

  /// Looks for up to `at_most`, and keeps the core. Returns whether the count differs from `seen`.
  bool watch(std::uint32_t seen, std::chrono::nanoseconds at_most) const;

  /// Returns when the count differs from `seen` or `at_most` has passed. Spins for at most
  /// `spin_max` before it sleeps, giving the core away between looks.
  void wait(std::uint32_t seen, std::chrono::nanoseconds at_most,
            std::chrono::nanoseconds spin_max = spin_default);

 private:
  static void yield();

  std::atomic<std::uint32_t> rings_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

static_assert(sizeof(Bell) == 8 && std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace tranship
