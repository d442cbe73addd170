#include "os/brief_lock.hpp"

#include <chrono>
#include <thread>

#include "os/bell.hpp"

namespace tranship {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned cores_to_spare = 8;
/// Each look takes the cache line from whoever holds the lock.
constexpr int pauses_between_looks = 8;

/// Without cores to spare, who holds the lock may be waiting for this one.
Clock::duration look_max() {
  static const bool spare = std::thread::hardware_concurrency() >= cores_to_spare;
  return std::chrono::microseconds(spare ? 20 : 2);
}

}  // namespace

std::unique_lock<std::mutex> brief_lock(std::mutex& mutex) {
  std::unique_lock lock(mutex, std::try_to_lock);
  if (lock) return lock;
  const auto end = Clock::now() + look_max();
  while (Clock::now() < end) {
    for (int k = 0; k < pauses_between_looks; ++k) Bell::pause();
    if (lock.try_lock()) return lock;
  }
  lock.lock();
  return lock;
}

}  // namespace tranship
