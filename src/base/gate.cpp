#include "base/gate.hpp"

#include <algorithm>
#include <thread>

namespace tranship {
namespace {

/// A waiting closer looks again after so long: leaving must not pay for waking it.
constexpr std::chrono::microseconds look_again{200};

std::size_t number_of_thread() {
  static std::atomic<std::size_t> next{0};
  thread_local const std::size_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

}  // namespace

Gate::Pass Gate::enter() {
  Stripe& stripe = stripes_[number_of_thread() % stripes];
  // The count comes before the look at the flag, as close() sets the flag before it reads counts:
  // one of the two sees the other.
  stripe.inside.fetch_add(1, std::memory_order_seq_cst);
  Pass pass(stripe.inside);
  return closed_.load(std::memory_order_seq_cst) ? Pass() : std::move(pass);
}

bool Gate::wait_empty(std::chrono::nanoseconds at_most) const {
  const auto end = std::chrono::steady_clock::now() + at_most;
  const auto empty = [](const Stripe& stripe) {
    return stripe.inside.load(std::memory_order_seq_cst) == 0;
  };
  while (!std::all_of(stripes_.begin(), stripes_.end(), empty)) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(look_again);
  }
  return true;
}

}  // namespace tranship
