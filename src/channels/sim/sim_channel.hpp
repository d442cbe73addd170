// Simulated channels: a throughput function, shared resources, virtual time and injected failures.
// If a request has addresses, its bytes are really moved, so that a simulated run can be verified.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "channels/sim/time_queue.hpp"
#include "machine/profile.hpp"
#include "runtime/channel.hpp"

namespace tranship {

/// Virtual time, its future events, and the resources. Shared by the channels of one simulation.
class SimWorld {
 public:
  explicit SimWorld(const std::vector<Resource>& resources);

  const ManualClock& clock() const { return clock_; }

  /// Adds a resource of that capacity (0: one channel uses it at a time); returns its number.
  int add_resource(double bytes_per_second);

  /// Returns a new number for a channel or another source of events.
  int add_source() { return sources_++; }

  /// What a request needs of the resources of its channel.
  struct Load {
    std::int64_t bytes = 0;
    double seconds = 0;  ///< time for which it occupies resources of capacity 0
  };

  /// Returns the time at which `load`, submitted now, has passed all `resources`, each of which
  /// serves in order of arrival.
  std::int64_t occupy(const std::vector<int>& resources, const Load& load);

  /// Schedules an event of `source` at that time, which is not past.
  void expect(std::int64_t time_ns, int source) { queue_.push(time_ns, source); }

  /// Advances the clock to the next event and returns its source; nothing if there is no event.
  std::optional<int> advance();

 private:
  struct Occupancy {
    double bytes_per_second = 0;
    double busy_until_ns = 0;
  };
  ManualClock clock_;
  std::vector<Occupancy> resources_;
  TimeQueue queue_;
  int sources_ = 0;
};

/// A first-in first-out queue that allocates nothing while it is empty.
template <typename T>
class Fifo {
 public:
  bool empty() const { return first_ == entries_.size(); }
  const T& front() const { return entries_[first_]; }
  void push(const T& entry) { entries_.push_back(entry); }
  void pop() {
    if (++first_ * 2 < entries_.size()) return;
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }

 private:
  std::vector<T> entries_;
  std::size_t first_ = 0;
};

/// One simulated channel. It serves requests one after another, at the rate of the throughput
/// function for their size and run; they end after the latency, in their order. It needs no
/// wake-up: idle() advances virtual time. Threads: one.
class SimChannel : public Channel {
 public:
  struct Options {
    ChannelSpec spec;
    /// Used instead of `spec` for many equal channels; `resources` lists each one's resources.
    std::shared_ptr<const ChannelSpec> shared_spec;
    std::vector<int> resources;      ///< numbers of SimWorld's resources, with `shared_spec`
    double failure_probability = 0;  ///< of each request
    double jitter = 0;               ///< service times vary by up to this share
    std::uint64_t seed = 0;          ///< of failures and jitter
    std::int64_t bytes_in_flight_max = 0;
  };

  SimChannel(SimWorld& world, Options options);

  const std::string& name() const override { return spec_->name; }
  const Capabilities& capabilities() const override { return capabilities_; }
  Status submit(const Request& request) override;
  std::size_t poll(std::span<Finished> finished) override;
  void idle(std::chrono::nanoseconds at_most) override;
  void wake() override {}

  /// Returns the number that SimWorld::advance() returns for this channel. A driver gives the same
  /// number to channels that are added in the order of their creation.
  int number() const { return number_; }

 private:
  struct Pending {
    std::int64_t end_ns = 0;
    std::uint64_t tag = 0;
    bool loaded = false;  ///< it has an entry in cargo_
  };
  /// The bytes that a request moves when it ends, and whether it is made to fail.
  struct Cargo {
    std::span<const LoopNest> nests;
    std::byte* source = nullptr;
    std::byte* target = nullptr;
    bool fails = false;
  };
  void line_up(const Pending& one);
  void step_up();
  double service_s(const Request& request);

  SimWorld& world_;
  std::shared_ptr<const ChannelSpec> spec_;
  std::vector<int> resources_;
  Capabilities capabilities_;
  double failure_probability_ = 0;
  double jitter_ = 0;
  Random random_;
  int number_ = 0;
  std::int64_t busy_until_ns_ = 0;
  /// Requests in flight, in the order in which they end. Most channels have at most two.
  std::array<Pending, 2> first_;
  std::size_t pending_count_ = 0;
  Fifo<Pending> behind_;
  Fifo<Cargo> cargo_;
  /// Size, run and service time of the previous request: most requests are equal to it.
  std::int64_t last_bytes_ = -1;
  std::int64_t last_run_bytes_ = -1;
  double last_s_ = 0;
};

/// Moves the bytes of nests element by element: slow and simple, for simulated channels and tests.
void move_bytes(std::span<const LoopNest> nests, const std::byte* source, std::byte* target);

}  // namespace tranship
