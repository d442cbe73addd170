#include "os/bell.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

namespace tranship {
namespace {

long futex(const void* word, int operation, std::uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, word, operation, value, timeout, nullptr, 0);
}

}  // namespace

void Bell::pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void Bell::wake(int sleepers_max) {
  futex(&rings_, FUTEX_WAKE, static_cast<std::uint32_t>(sleepers_max), nullptr);
}

void Bell::yield() { sched_yield(); }

bool Bell::watch(std::uint32_t seen, std::chrono::nanoseconds at_most) const {
  const auto end = std::chrono::steady_clock::now() + at_most;
  return look_until(end, false, [&] { return rings() != seen; });
}

void Bell::wait(std::uint32_t seen, std::chrono::nanoseconds at_most,
                std::chrono::nanoseconds spin_max) {
  using Clock = std::chrono::steady_clock;
  if (rings() != seen) return;
  const auto start = Clock::now();
  const auto spin_end = start + (spin_max < at_most ? spin_max : at_most);
  if (look_until(spin_end, true, [&] { return rings() != seen; })) return;
  const auto left =
      std::chrono::duration_cast<std::chrono::nanoseconds>(start + at_most - Clock::now());
  if (left.count() <= 0) return;
  timespec timeout{};
  timeout.tv_sec = static_cast<time_t>(left.count() / 1'000'000'000);
  timeout.tv_nsec = static_cast<long>(left.count() % 1'000'000'000);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  if (rings() == seen) futex(&rings_, FUTEX_WAIT, seen, &timeout);
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace tranship
