#include "staging/client/page_mapper.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "os/fork.hpp"
#include "os/pages.hpp"

namespace tranship::staging {
namespace {

/// Pages are mapped and counted in parts of so many bytes: some tenths of a millisecond of work.
constexpr std::int64_t part_bytes = std::int64_t{2} << 20;

/// A memory is given up when no page of any has appeared for so long,
constexpr std::chrono::milliseconds patience{2000};
/// and looks so often.
constexpr std::chrono::milliseconds pause{10};

/// Maps a part if all its pages are there; returns whether they are.
bool map_part(const SharedMemory& memory, std::int64_t offset) {
  const std::int64_t bytes = std::min(part_bytes, memory.bytes() - offset);
  if (!pages_are_there(memory.data() + offset, bytes)) return false;
  (void)map_for_reading(memory.data() + offset, bytes);
  return true;
}

}  // namespace

std::shared_ptr<PageMapper::Looked> PageMapper::looked_at(
    const std::shared_ptr<SharedMemory>& memory) {
  const std::lock_guard lock(mutex_);
  auto& looked = looked_[memory.get()];
  if (looked == nullptr) {
    looked = std::make_shared<Looked>();
    looked->memory = memory;
    const auto parts = static_cast<std::size_t>((memory->bytes() + part_bytes - 1) / part_bytes);
    looked->parts = std::vector<std::atomic<bool>>(parts);
  }
  return looked;
}

void PageMapper::map(const std::shared_ptr<SharedMemory>& memory, std::int64_t offset,
                     std::int64_t bytes) {
  const auto looked = looked_at(memory);
  for (std::int64_t part = offset / part_bytes; part * part_bytes < offset + bytes; ++part) {
    std::atomic<bool>& before = looked->parts[static_cast<std::size_t>(part)];
    if (before.load(std::memory_order_relaxed)) continue;
    if (!before.exchange(true)) (void)map_part(*memory, part * part_bytes);
  }
}

void PageMapper::follow(Open open) {
  const std::lock_guard lock(mutex_);
  if (stop_ || (!thread_.joinable() && !start())) return;
  asked_.push_back(std::move(open));
  changed_.notify_all();
}

/// Starts the thread; the caller holds the mutex. Returns false if there is none.
bool PageMapper::start() {
  // Many clients of a process would only keep each other from their work.
  static std::atomic<std::uint64_t> running{0};  // the process, by its generation of forks
  const std::uint64_t here = fork_generation() + 1;
  if (running.exchange(here) == here) return false;
  try {
    thread_ = std::thread([this] {
      run();
      running.store(0);
    });
  } catch (const std::system_error&) {
    running.store(0);  // pages are mapped as they are copied
  }
  return thread_.joinable();
}

void PageMapper::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  const std::lock_guard lock(mutex_);
  asked_.clear();
  looked_.clear();
}

/// Maps the next part of a memory, if its pages are there. Returns whether they are.
bool PageMapper::map_next(Followed& one) {
  const std::shared_ptr<SharedMemory>& memory = one.looked->memory;
  if (one.next >= memory->bytes() || !map_part(*memory, one.next)) return false;
  one.looked->parts[static_cast<std::size_t>(one.next / part_bytes)].store(true);
  one.next += part_bytes;
  return true;
}

void PageMapper::run() {
  lower_priority();
  std::vector<Followed> followed;
  auto waited = std::chrono::milliseconds(0);
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const std::vector<Open> asked = std::exchange(asked_, {});
    lock.unlock();
    for (const Open& open : asked) {
      const auto memory = open();
      if (memory && *memory != nullptr) followed.push_back({looked_at(*memory)});
    }
    bool mapped = !asked.empty();
    for (Followed& one : followed) mapped = map_next(one) || mapped;
    std::erase_if(followed,
                  [](const Followed& one) { return one.next >= one.looked->memory->bytes(); });
    waited = mapped ? std::chrono::milliseconds(0) : waited + pause;
    if (waited >= patience) followed.clear();
    lock.lock();
    if (stop_ || mapped || !asked_.empty()) continue;
    if (followed.empty()) {
      changed_.wait(lock, [this] { return stop_ || !asked_.empty(); });
    } else {
      changed_.wait_for(lock, pause);
    }
  }
}

}  // namespace tranship::staging
