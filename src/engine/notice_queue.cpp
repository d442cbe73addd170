#include "engine/notice_queue.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace tranship {

NoticeQueue::Sender NoticeQueue::sender_of(const fabric::CopyNotice& notice) {
  const Identity& from = notice.sender;
  return {from.pid, from.start_ticks, from.boot, from.pid_namespace, from.host};
}

Status NoticeQueue::add(fabric::CopyNotice notice) {
  std::lock_guard lock(mutex_);
  if (closed_) return Error{ErrorCode::closed, "it has closed its engine"};
  std::size_t& waiting = waiting_[sender_of(notice)];
  const bool all_full = notices_.size() / full_senders_most >= most_;
  if (waiting >= most_ || all_full) {
    const std::string which = waiting >= most_
                                  ? std::to_string(waiting) + " notices of this process"
                                  : std::to_string(notices_.size()) + " notices";
    if (waiting == 0) waiting_.erase(sender_of(notice));
    return Error{ErrorCode::out_of_memory,
                 "it has not read " + which +
                     ", and takes no more: the bytes have arrived, the notice has not",
                 "read them there, or raise the setting notices_max there"};
  }
  ++waiting;
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
  for (const fabric::CopyNotice& notice : taken) {
    const auto waiting = waiting_.find(sender_of(notice));
    if (--waiting->second == 0) waiting_.erase(waiting);
  }
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
  waiting_.clear();
  ++changes_;
  changed_.notify_all();
}

}  // namespace tranship
