#include "fabric/links/remote_array.hpp"

#include <utility>

namespace tranship::fabric {

void RemoteArray::set_withdrawn() {
  std::function<void()> then;
  {
    std::lock_guard lock(mutex_);
    withdrawn_.store(true, std::memory_order_release);
    then = std::exchange(when_withdrawn_, nullptr);
  }
  if (then) then();
}

void RemoteArray::when_withdrawn(std::function<void()> then) {
  {
    std::lock_guard lock(mutex_);
    if (!withdrawn()) {
      when_withdrawn_ = std::move(then);
      return;
    }
  }
  then();
}

}  // namespace tranship::fabric
