#include "staging/client/page_mapper.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>

#include "os/fork.hpp"
#include "os/pages.hpp"

namespace tranship::staging {
namespace {

/// Pages are mapped and counted in parts of so many bytes: some tenths of a millisecond of work.
constexpr std::int64_t part_bytes = std::int64_t{2} << 20;

/// The thread ends when no page has appeared for so long,
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

void PageMapper::start(Find find) {
  // Many clients of a process would only keep each other from their work.
  static std::atomic<std::uint64_t> running{0};  // the process, by its generation of forks
  const std::uint64_t here = fork_generation() + 1;
  if (running.exchange(here) == here) return;
  try {
    thread_ = std::thread([this, find = std::move(find)] {
      follow(find);
      running.store(0);
    });
  } catch (const std::system_error&) {
    running.store(0);  // pages are mapped as they are copied
  }
}

void PageMapper::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    stopping_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  const std::lock_guard lock(mutex_);
  looked_.clear();
}

void PageMapper::follow(const Find& find) {
  lower_priority();
  const auto found = find();
  if (!found || *found == nullptr) return;
  const std::shared_ptr<SharedMemory>& memory = *found;
  const auto looked = looked_at(memory);
  auto waited = std::chrono::milliseconds(0);
  std::int64_t at = 0;
  std::unique_lock lock(mutex_);
  while (at < memory->bytes() && waited < patience && !stop_) {
    lock.unlock();
    const bool mapped = map_part(*memory, at);
    if (mapped) looked->parts[static_cast<std::size_t>(at / part_bytes)].store(true);
    lock.lock();
    if (mapped) {
      at += part_bytes;
      waited = std::chrono::milliseconds(0);
    } else if (!stop_) {
      stopping_.wait_for(lock, pause);
      waited += pause;
    }
  }
}

}  // namespace tranship::staging
