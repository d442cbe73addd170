// Waiting in tests, on machines that are busy and stop a process for seconds at times.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace tranship::test {

/// Time within which what a test waits for comes, on a busy machine too. It is also the time limit
/// of calls that must end before it, which tests compare with `soon`.
constexpr std::chrono::seconds patience{60};
/// Time within which a call ends that waits for no time limit, on a busy machine too.
constexpr std::chrono::seconds soon{30};

/// Waits until a condition holds; returns whether it held within `patience`.
inline bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// Repeats an attempt that must be faster than some time limit, which it is not each time on a busy
/// machine; returns whether one attempt succeeded.
inline bool succeeds_once(const std::function<bool()>& attempt) {
  for (int k = 0; k < 10; ++k) {
    if (attempt()) return true;
  }
  return false;
}

}  // namespace tranship::test
