// Sources of time, which constructors take as arguments (design: I3): wall time for threads, and
// virtual time for simulated runs.
#pragma once

#include <chrono>
#include <cstdint>

namespace tranship {

/// A source of time. Threads: all.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Returns nanoseconds since a fixed, unspecified moment.
  virtual std::int64_t now_ns() const = 0;
};

/// The monotonic clock of the system.
class SteadyClock final : public Clock {
 public:
  std::int64_t now_ns() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

/// A clock that shows the time it was last set to. Threads: one.
class ManualClock final : public Clock {
 public:
  std::int64_t now_ns() const override { return now_ns_; }
  void set_ns(std::int64_t now_ns) { now_ns_ = now_ns; }

 private:
  std::int64_t now_ns_ = 0;
};

}  // namespace tranship
