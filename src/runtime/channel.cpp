#include "runtime/channel.hpp"

namespace tranship {

bool carries(const Capabilities& channel, const Payload& payload) {
  if (payload.runs() != nullptr) return channel.run_lists;
  const auto indexed = payload.indexed();
  return indexed.empty() || channel.lists == Lists::all ||
         (channel.lists == Lists::runs && moves_runs(indexed));
}

void Channel::idle(std::chrono::nanoseconds at_most) {
  std::unique_lock lock(mutex_);
  condition_.wait_for(lock, at_most, [&] { return wakes_ != wakes_seen_; });
  wakes_seen_ = wakes_;
}

void Channel::wake() {
  {
    std::lock_guard lock(mutex_);
    ++wakes_;
  }
  condition_.notify_all();
}

}  // namespace tranship
