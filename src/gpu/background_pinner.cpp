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

BackgroundPinner::Look BackgroundPinner::look(const std::map<std::uint64_t, AddedMemory>& added) {
  Look found;
  for (const auto& [number, one] : added) {
    const auto memory = one.memory.lock();
    const auto parts = memory != nullptr ? one.parts.lock() : nullptr;
    if (parts != nullptr && parts->pin_next(Clock::now())) {
      found.pinned = true;
      return found;
    }
    if (parts == nullptr || parts->are_over()) found.over.push_back(number);
  }
  return found;
}

void BackgroundPinner::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const Clock::time_point now = Clock::now();
    if (now < held_until_) {
      wake_.wait_until(lock, held_until_);
      continue;
    }
    if (memories_.empty() || now >= awake_until_) {
      wake_.wait(lock);
      continue;
    }
    const std::map<std::uint64_t, AddedMemory> added = memories_;
    lock.unlock();
    const Look found = look(added);
    lock.lock();
    for (const std::uint64_t number : found.over) memories_.erase(number);
    if (found.pinned) {
      awake_until_ = Clock::now() + patience;
    } else if (!stop_) {
      wake_.wait_for(lock, pause);
    }
  }
}

}  // namespace tranship
