// A wake-up across processes.
#pragma once

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>

namespace tranship {

/// A counter that one side rings and others sleep on. Lies in memory that several processes may
/// map, so it trusts nothing that it reads: a peer that scribbles over it can cause spurious or
/// late wake-ups of its own link and nothing else (every sleep is bounded).
/// Threads: all. Cost: ring() is two atomic operations while nobody sleeps.
class Bell {
 public:
  void ring() {
    count();
    if (sleepers_.load(std::memory_order_seq_cst) != 0) wake(INT_MAX);
  }
  /// The two halves of ring(), for callers that know by other means whether somebody sleeps.
  void count() { rings_.fetch_add(1, std::memory_order_seq_cst); }
  void wake(int sleepers_max);

  /// The count to hand to wait(); read it before looking for work.
  std::uint32_t rings() const { return rings_.load(std::memory_order_seq_cst); }

  /// Between two looks at what another core writes.
  static void pause();

  /// Looks for so long, and keeps the core: for answers that come sooner than a sleep and its end.
  /// Returns whether the count differs from `seen`.
  bool watch(std::uint32_t seen, std::chrono::nanoseconds at_most) const;

  /// Returns when the count differs from `seen` or `at_most` has passed. Spins for at most
  /// `spin_max` before it sleeps, giving the core away between looks.
  void wait(std::uint32_t seen, std::chrono::nanoseconds at_most,
            std::chrono::nanoseconds spin_max = std::chrono::microseconds(20));

 private:
  std::atomic<std::uint32_t> rings_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

static_assert(sizeof(Bell) == 8 && std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace tranship
