#include "runtime/completion.hpp"

#include <deque>
#include <utility>

#include "base/check.hpp"

namespace tranship {
namespace {

/// Callbacks that this thread is to call, with how their transfers ended.
struct Due {
  std::vector<std::function<void(const Status&)>> callbacks;
  Status status;
};

/// Calls callbacks, and those of the transfers that they end in turn: one after another, not one
/// inside the other, since a chain of transfers may be longer than any stack.
void call(Due due) {
  thread_local std::deque<Due>* calling = nullptr;
  if (calling != nullptr) {
    calling->push_back(std::move(due));
    return;
  }
  std::deque<Due> line;
  calling = &line;
  line.push_back(std::move(due));
  while (!line.empty()) {
    const Due next = std::move(line.front());
    line.pop_front();
    for (const auto& callback : next.callbacks) callback(next.status);
  }
  calling = nullptr;
}

}  // namespace

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
  if (!callbacks.empty()) call({std::move(callbacks), status_});
}

}  // namespace tranship
