// Time comes in through constructors (design: I3): wall time for threads, virtual time for runs
// that are simulated.
#pragma once

#include <chrono>
#include <cstdint>

namespace tranship {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::int64_t now_ns() const = 0;
};

class SteadyClock final : public Clock {
 public:
  std::int64_t now_ns() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

class ManualClock final : public Clock {
 public:
  std::int64_t now_ns() const override { return now_ns_; }
  void set_ns(std::int64_t now_ns) { now_ns_ = now_ns; }

 private:
  std::int64_t now_ns_ = 0;
};

}  // namespace tranship
