#include "base/fork.hpp"

#include <pthread.h>

#include <atomic>

namespace tranship {

std::uint64_t fork_generation() {
  static std::atomic<std::uint64_t> generation{0};
  static const int registered = pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1); });
  (void)registered;
  return generation.load(std::memory_order_relaxed);
}

}  // namespace tranship
