#include "runtime/channel.hpp"

namespace tranship {

bool carries(Lists lists, std::span<const IndexedNest> indexed) {
  return lists == Lists::all || (lists == Lists::runs && moves_runs(indexed));
}

Request expanded(const Request& request, std::vector<LoopNest>& nests) {
  nests.assign(request.nests.begin(), request.nests.end());
  expand(request.indexed, nests);
  Request plain = request;
  plain.nests = nests;
  plain.indexed = {};
  return plain;
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
