#include "fabric/sessions/inbox.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace tranship::fabric {

Inbox::Inbox() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Inbox::~Inbox() = default;

bool Inbox::post(std::function<void()> task) {
  std::lock_guard lock(mutex_);
  if (closed_) return false;
  tasks_.push_back(std::move(task));
  if (asleep_) {
    asleep_ = false;
    const std::uint64_t one = 1;
    (void)!write(descriptor_.get(), &one, sizeof one);
  }
  return true;
}

bool Inbox::run() {
  {
    std::lock_guard lock(mutex_);
    asleep_ = false;
    if (tasks_.empty()) return false;
    running_.swap(tasks_);
  }
  for (auto& task : running_) task();
  running_.clear();
  return true;
}

bool Inbox::arm() {
  std::lock_guard lock(mutex_);
  asleep_ = tasks_.empty();
  return asleep_;
}

void Inbox::drain() {
  std::uint64_t count = 0;
  (void)!read(descriptor_.get(), &count, sizeof count);
}

void Inbox::close() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  (void)run();
}

}  // namespace tranship::fabric
