#include "base/gate.hpp"

#include <algorithm>
#include <thread>

namespace tranship {
namespace {

/// Interval at which wait_empty() reads the counters: leaving must not pay for a wake-up.
constexpr std::chrono::microseconds look_again{200};

std::size_t number_of_thread() {
  static std::atomic<std::size_t> next{0};
  thread_local const std::size_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

}  // namespace

Gate::Pass Gate::enter() {
  Stripe& stripe = stripes_[number_of_thread() % stripes];
  // The counter is raised before the flag is read, and wait_empty() reads counters after close()
  // has set the flag: at least one of the two threads sees what the other one did.
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
