#include "engine/notice_queue.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace tranship {

Status NoticeQueue::add(fabric::CopyNotice notice) {
  std::lock_guard lock(mutex_);
  if (closed_) return Error{ErrorCode::closed, "it has closed its engine"};
  if (notices_.size() >= most_) {
    return Error{ErrorCode::out_of_memory,
                 "it has not read " + std::to_string(notices_.size()) +
                     " notices, and takes no more: the bytes have arrived, the notice has not",
                 "read them there by Engine.notices(), or raise the setting notices_max there"};
  }
  notices_.push_back(std::move(notice));
  ++changes_;
  changed_.notify_all();
  return {};
}

std::vector<fabric::CopyNotice> NoticeQueue::take(const Identity* sender) {
  std::vector<fabric::CopyNotice> taken;
  std::lock_guard lock(mutex_);
  const auto first = std::stable_partition(
      notices_.begin(), notices_.end(), [&](const fabric::CopyNotice& notice) {
        return sender != nullptr && !notice.sender.same_process(*sender);
      });
  taken.assign(std::make_move_iterator(first), std::make_move_iterator(notices_.end()));
  notices_.erase(first, notices_.end());
  return taken;
}

std::uint64_t NoticeQueue::changes() const {
  std::lock_guard lock(mutex_);
  return changes_;
}

void NoticeQueue::wait(std::uint64_t seen, Time until) const {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, until, [&] { return changes_ != seen; });
}

void NoticeQueue::wake() {
  std::lock_guard lock(mutex_);
  ++changes_;
  changed_.notify_all();
}

void NoticeQueue::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  notices_.clear();
  ++changes_;
  changed_.notify_all();
}

}  // namespace tranship
