#include "gpu/background_pinner.hpp"

#include <algorithm>
#include <system_error>
#include <vector>

namespace tranship {
namespace {

/// Pause between two looks for pages that have appeared.
constexpr std::chrono::milliseconds pause{10};
/// The thread sleeps until it is woken once no part could be pinned for so long.
constexpr std::chrono::milliseconds patience{2000};
/// The first copy to or from a memory has so long to run before the driver is called: 256 MiB
/// through a bounce buffer take 5 to 25 ms at 10 to 50 GB/s.
constexpr std::chrono::milliseconds first_copy_time{50};
/// Copies of further memories hold the thread off again only after so long.
constexpr std::chrono::milliseconds pinning_time_least{200};

}  // namespace

void BackgroundPinner::add(const std::shared_ptr<SharedMemory>& memory,
                           const std::shared_ptr<PinnedParts>& parts) {
  const std::lock_guard lock(mutex_);
  if (stop_) return;
  const bool known = std::any_of(entries_.begin(), entries_.end(), [&](const auto& entry) {
    return !entry.second.memory.owner_before(memory) && !memory.owner_before(entry.second.memory);
  });
  if (!known) entries_.emplace(added_++, Entry{memory, parts});
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

BackgroundPinner::Look BackgroundPinner::look(const std::map<std::uint64_t, Entry>& entries) {
  Look found;
  for (const auto& [number, entry] : entries) {
    const auto memory = entry.memory.lock();
    const auto parts = memory != nullptr ? entry.parts.lock() : nullptr;
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
    if (entries_.empty() || now >= awake_until_) {
      wake_.wait(lock);
      continue;
    }
    const std::map<std::uint64_t, Entry> entries = entries_;
    lock.unlock();
    const Look found = look(entries);
    lock.lock();
    for (const std::uint64_t number : found.over) entries_.erase(number);
    if (found.pinned) {
      awake_until_ = Clock::now() + patience;
    } else if (!stop_) {
      wake_.wait_for(lock, pause);
    }
  }
}

}  // namespace tranship
