#include "runtime/completion.hpp"

#include "base/check.hpp"

namespace tranship {

Status Completion::wait(std::optional<std::chrono::nanoseconds> timeout) const {
  if (done()) return status_;
  std::unique_lock lock(mutex_);
  const auto ended = [&] { return done(); };
  if (!timeout) {
    condition_.wait(lock, ended);
  } else if (!condition_.wait_for(lock, *timeout, ended)) {
    return Error{ErrorCode::timeout, "the transfer has not ended within the timeout; it goes on",
                 "wait again, or cancel it"};
  }
  return status_;
}

void Completion::on_end(std::function<void(const Status&)> callback) {
  {
    std::lock_guard lock(mutex_);
    if (!done()) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback(status_);
}

void Completion::end(Status status) {
  std::vector<std::function<void(const Status&)>> callbacks;
  {
    std::lock_guard lock(mutex_);
    CHECK(!done(), "a transfer ended twice");
    status_ = std::move(status);
    done_.store(true, std::memory_order_release);
    callbacks.swap(callbacks_);
    condition_.notify_all();
  }
  for (const auto& callback : callbacks) callback(status_);
}

}  // namespace tranship
