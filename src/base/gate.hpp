// Counts who is inside something that may be closed.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>

namespace tranship {

/// Lets callers in until it is closed, and says when the last one has left. Any thread may call any
/// member. Entering and leaving cost one atomic operation each, on a counter that few threads
/// share.
class Gate {
 public:
  /// A caller inside, until the pass is destroyed.
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
    /// Whether the gate let the caller in.
    explicit operator bool() const { return count_ != nullptr; }

   private:
    friend class Gate;
    explicit Pass(std::atomic<std::int64_t>& count) : count_(&count) {}
    std::atomic<std::int64_t>* count_ = nullptr;
  };

  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// A pass that converts to false if the gate is closed.
  Pass enter();

  /// Lets nobody in from now on; returns whether it was open. Those who are inside stay there.
  bool close() { return !closed_.exchange(true); }
  bool closed() const { return closed_.load(std::memory_order_acquire); }

  /// Waits until nobody is inside; returns false if somebody still is after `at_most`. Only of use
  /// after close().
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
