#include "os/brief_lock.hpp"

#include <chrono>

#include "os/bell.hpp"
#include "os/cores.hpp"

namespace tranship {
namespace {

using std::chrono::steady_clock;

/// Each attempt takes the cache line from the thread that holds the lock.
constexpr int pauses_between_looks = 8;

/// Returns how long to try. With few cores, the thread that holds the lock may need this one.
steady_clock::duration look_max() { return std::chrono::microseconds(cores_to_spare() ? 20 : 2); }

}  // namespace

std::unique_lock<std::mutex> brief_lock(std::mutex& mutex) {
  std::unique_lock lock(mutex, std::try_to_lock);
  if (lock) return lock;
  const auto end = steady_clock::now() + look_max();
  while (steady_clock::now() < end) {
    for (int k = 0; k < pauses_between_looks; ++k) Bell::pause();
    if (lock.try_lock()) return lock;
  }
  lock.lock();
  return lock;
}

}  // namespace tranship
