// Counts the callers inside an object that may be closed.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>

namespace tranship {

/// Admits callers until it is closed, and waits until the last one has left. Threads: all. Entering
/// and leaving cost one atomic operation each, on a counter that few threads share.
class Gate {
 public:
  /// Stands for one caller inside the gate, until the pass is destroyed.
  class Pass {
   public:
    Pass() = default;
    Pass(Pass&& other) noexcept : count_(std::exchange(other.count_, nullptr)) {}
    Pass& operator=(Pass&& other) noexcept {
      std::swap(count_, other.count_);
      return *this;
    }
    ~Pass() {
      if (count_ != nullptr) count_->fetch_sub(1, std::memory_order_release);
    }
    /// Returns whether the gate admitted the caller.
    explicit operator bool() const { return count_ != nullptr; }

   private:
    friend class Gate;
    explicit Pass(std::atomic<std::int64_t>& count) : count_(&count) {}
    std::atomic<std::int64_t>* count_ = nullptr;
  };

  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// Returns a pass, which converts to false if the gate is closed.
  Pass enter();

  /// Refuses all later callers; callers inside stay there. Returns whether the gate was open.
  bool close() { return !closed_.exchange(true); }
  bool closed() const { return closed_.load(std::memory_order_acquire); }

  /// Waits until no caller is inside; returns false if one still is after `at_most`. Call close()
  /// first: otherwise new callers may enter at any time.
  bool wait_empty(std::chrono::nanoseconds at_most) const;

 private:
  static constexpr std::size_t stripes = 8;
  struct alignas(64) Stripe {
    std::atomic<std::int64_t> inside{0};
  };

  std::array<Stripe, stripes> stripes_;
  std::atomic<bool> closed_{false};
};

}  // namespace tranship
