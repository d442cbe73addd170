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

/// Memories are given up when no page of any of them has appeared for so long,
constexpr std::chrono::milliseconds patience{2000};
/// and are looked at so often.
constexpr std::chrono::milliseconds pause{10};

/// Most threads that map: the kernel maps with four some 27 GB/s on an H200's host, and 11 with
/// one.
constexpr int threads_most = 4;

/// Most mappers of a process whose threads run: more would only keep each other from their work.
constexpr std::uint64_t mappers_most = 4;

/// Returns a place among them, which is given up with the last reference; null if there is none.
std::shared_ptr<void> take_place() {
  static std::atomic<std::uint64_t> taken{0};  // below the generation of forks that it holds for
  constexpr int bits = 8;
  const std::uint64_t none = (fork_generation() + 1) << bits;
  std::uint64_t before = taken.load();
  std::uint64_t here = 0;
  do {
    here = std::max(before, none);
    if (here - none == mappers_most) return nullptr;
  } while (!taken.compare_exchange_weak(before, here + 1));
  return {&taken, [](void*) { taken.fetch_sub(1); }};
}

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

bool PageMapper::follow(Open open) {
  const std::lock_guard lock(mutex_);
  if (stop_ || (threads_.empty() && !start())) return false;
  asked_.push_back(std::move(open));
  changed_.notify_all();
  return true;
}

/// Starts the threads; the caller holds the mutex. Returns false if there are none.
bool PageMapper::start() {
  const auto place = take_place();
  if (place == nullptr) return false;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int threads = std::clamp(cores / 4, 1, threads_most);
  try {
    for (int k = 0; k < threads; ++k) {
      threads_.emplace_back([this, k, threads, place] { run(k, threads); });
    }
  } catch (const std::system_error&) {
    return !threads_.empty();  // pages that no thread maps are mapped as they are copied
  }
  return !threads_.empty();
}

void PageMapper::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
  const std::lock_guard lock(mutex_);
  threads_.clear();
  asked_.clear();
  looked_.clear();
}

/// Maps the next part of a memory, if its pages are there. Returns whether they are.
bool PageMapper::map_next(Followed& one, int threads) {
  std::vector<std::atomic<bool>>& parts = one.looked->parts;
  if (one.next >= std::ssize(parts)) return false;
  if (!map_part(*one.looked->memory, one.next * part_bytes)) return false;
  parts[static_cast<std::size_t>(one.next)].store(true);
  one.next += threads;
  return true;
}

void PageMapper::run(int thread, int threads) {
  lower_priority();
  std::vector<Followed> followed;
  std::size_t opened = 0;
  auto waited = std::chrono::milliseconds(0);
  std::unique_lock lock(mutex_);
  while (!stop_) {
    bool mapped = false;
    while (opened < asked_.size() && !stop_) {
      const Open open = asked_[opened++];
      lock.unlock();
      const auto memory = open();
      if (memory && *memory != nullptr) followed.push_back({looked_at(*memory), thread});
      lock.lock();
      mapped = true;
    }
    lock.unlock();
    for (Followed& one : followed) mapped = map_next(one, threads) || mapped;
    std::erase_if(followed,
                  [](const Followed& one) { return one.next >= std::ssize(one.looked->parts); });
    waited = mapped ? std::chrono::milliseconds(0) : waited + pause;
    if (waited >= patience) followed.clear();
    lock.lock();
    if (stop_ || mapped || opened < asked_.size()) continue;
    if (followed.empty()) {
      changed_.wait(lock, [&] { return stop_ || opened < asked_.size(); });
    } else {
      changed_.wait_for(lock, pause);
    }
  }
}

}  // namespace tranship::staging
