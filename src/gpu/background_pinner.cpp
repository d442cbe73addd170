#include "gpu/background_pinner.hpp"

#include <algorithm>
#include <system_error>
#include <vector>

namespace tranship {
namespace {

/// The thread checks this often whether further pages of the memories exist.
constexpr std::chrono::milliseconds pause{10};
/// Once no part could be pinned for this long, the thread sleeps until it is woken.
constexpr std::chrono::milliseconds patience{2000};
/// The thread checks this often whether the owners of the memories have given pages back: one page
/// for each part of 64 MiB, which takes a microsecond.
constexpr std::chrono::milliseconds unpin_interval{1000};
/// How long the thread waits after the first copy to or from a memory began, so that the driver's
/// locks do not delay that copy: 256 MiB through a bounce buffer take 5 to 25 ms at 10 to 50 GB/s.
constexpr std::chrono::milliseconds first_copy_time{50};
/// How long the thread may pin before the first copy of another memory makes it wait again.
constexpr std::chrono::milliseconds pinning_time_least{200};

}  // namespace

void BackgroundPinner::add(const std::shared_ptr<SharedMemory>& memory,
                           const std::shared_ptr<PinnedParts>& parts) {
  const std::lock_guard lock(mutex_);
  if (stop_) return;
  const bool known = std::any_of(memories_.begin(), memories_.end(), [&](const auto& one) {
    return !one.second.memory.owner_before(memory) && !memory.owner_before(one.second.memory);
  });
  if (!known) memories_.emplace(added_++, AddedMemory{memory, parts});
  awake_until_ = Clock::now() + patience;
  try {
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    return;  // copies go through bounce buffers
  }
  wake_.notify_all();
}

void BackgroundPinner::want(PinnedParts& parts, std::int64_t offset, std::int64_t bytes) {
  const Clock::time_point now = Clock::now();
  const bool first = parts.want(offset, bytes, now);
  const std::lock_guard lock(mutex_);
  if (first && now >= held_until_ + pinning_time_least) held_until_ = now + first_copy_time;
  awake_until_ = now + patience;
  wake_.notify_all();
}

void BackgroundPinner::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

/// Looks at all memories: unpins what was given back, and pins the next part of one.
BackgroundPinner::Look BackgroundPinner::look(const std::map<std::uint64_t, AddedMemory>& added,
                                              bool pins, bool unpins) {
  Look found;
  for (const auto& [number, one] : added) {
    const auto memory = one.memory.lock();
    const auto parts = memory != nullptr ? one.parts.lock() : nullptr;
    if (parts == nullptr) {
      found.over.push_back(number);
      continue;
    }
    if (unpins) parts->unpin_given_back();
    if (pins && !found.pinned && !parts->are_over()) found.pinned = parts->pin_next(Clock::now());
  }
  return found;
}

/// Sleeps until there is something to do; the caller holds the lock.
void BackgroundPinner::sleep(std::unique_lock<std::mutex>& lock, Clock::time_point now) {
  if (memories_.empty()) return wake_.wait(lock);
  if (now >= awake_until_) {
    (void)wake_.wait_until(lock, unpins_after_);
  } else {
    (void)wake_.wait_for(lock, pause);
  }
}

void BackgroundPinner::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const Clock::time_point now = Clock::now();
    if (now < held_until_) {
      wake_.wait_until(lock, held_until_);
      continue;
    }
    const bool unpins = now >= unpins_after_;
    if (unpins) unpins_after_ = now + unpin_interval;
    const std::map<std::uint64_t, AddedMemory> added = memories_;
    const bool pins = now < awake_until_;
    lock.unlock();
    const Look found = look(added, pins, unpins);
    lock.lock();
    for (const std::uint64_t number : found.over) memories_.erase(number);
    if (found.pinned) {
      awake_until_ = Clock::now() + patience;
    } else if (!stop_) {
      sleep(lock, now);
    }
  }
}

}  // namespace tranship
