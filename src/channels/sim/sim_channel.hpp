// Channels that exist only in the simulator: a throughput function, shared resources, virtual time
// and injected failures. The bytes are really moved, so that a simulated run can be verified.
#pragma once

#include <cstdint>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "machine/profile.hpp"
#include "runtime/channel.hpp"

namespace tranship {

/// Virtual time and what is going to happen in it. Shared by the channels of one simulation.
class SimWorld {
 public:
  explicit SimWorld(std::vector<Resource> resources)
      : resources_(std::move(resources)), busy_until_ns_(resources_.size(), 0) {}

  const ManualClock& clock() const { return clock_; }

  /// When `bytes` that start at `start_ns` have passed every one of `resources`, first come first
  /// served.
  std::int64_t occupy(const std::vector<int>& resources, std::int64_t bytes, std::int64_t start_ns);

  /// Something will happen at that time.
  void expect(std::int64_t time_ns) { times_.push(time_ns); }

  /// Moves the clock to the next expected time. False if there is none.
  bool advance();

 private:
  ManualClock clock_;
  std::vector<Resource> resources_;
  std::vector<std::int64_t> busy_until_ns_;
  std::priority_queue<std::int64_t, std::vector<std::int64_t>, std::greater<>> times_;
};

/// One channel. Requests are served one after another at the rate that the throughput function
/// gives for their size and run, and end after the latency. Not thread-safe, and needs no wake-up:
/// idle() moves virtual time on.
class SimChannel : public Channel {
 public:
  struct Options {
    ChannelSpec spec;
    double failure_probability = 0;  ///< of each request
    double jitter = 0;               ///< service times vary by up to this share
    std::uint64_t seed = 0;          ///< of failures and jitter
    std::int64_t bytes_in_flight_max = 0;
  };

  SimChannel(SimWorld& world, Options options);

  const std::string& name() const override { return options_.spec.name; }
  const Capabilities& capabilities() const override { return capabilities_; }
  Status submit(const Request& request) override;
  std::size_t poll(std::span<Finished> finished) override;
  void idle(std::chrono::nanoseconds at_most) override;
  void wake() override {}

 private:
  struct Pending {
    std::int64_t end_ns = 0;
    Request request;
    bool fails = false;
  };

  SimWorld& world_;
  Options options_;
  Capabilities capabilities_;
  Random random_;
  std::int64_t busy_until_ns_ = 0;
  std::vector<Pending> pending_;
};

/// Moves bytes element by element: slow, obvious, and good for simulated channels.
void move_bytes(std::span<const LoopNest> nests, const std::byte* source, std::byte* target);

}  // namespace tranship
