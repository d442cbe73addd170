#include "os/brief_lock.hpp"

#include <chrono>

#include "os/bell.hpp"
#include "os/cores.hpp"

namespace tranship {
namespace {

using Clock = std::chrono::steady_clock;

/// Each look takes the cache line from whoever holds the lock.
constexpr int pauses_between_looks = 8;

/// Without cores to spare, who holds the lock may be waiting for this one.
Clock::duration look_max() { return std::chrono::microseconds(cores_to_spare() ? 20 : 2); }

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
