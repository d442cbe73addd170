// Runs a scheduler without threads, on whatever time its channels keep: virtual time in simulations
// (design: I3). The same scheduler, transfers and channel interface as the threads use.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.hpp"
#include "base/trace.hpp"
#include "runtime/channel.hpp"
#include "runtime/scheduler.hpp"

namespace tranship {

/// Drives asynchronous channels from one thread. A step visits only channels on which something
/// happened. The state of a request comes from a common store, so that memory grows with the
/// requests in flight and not with the channels. Not thread-safe.
class StepDriver {
 public:
  /// Answer of advance() when something happened that concerns no channel.
  static constexpr int no_channel = -1;

  struct Options {
    std::vector<BufferPool::MemoryLimits> memories;
    int jobs_in_flight_max = 16;  ///< of one channel, unless it is added with limits of its own
    const Clock* clock = nullptr;
    Trace* trace = nullptr;
    /// Whether requests name the bytes to move (loop nests); false: only how many there are.
    bool with_data = true;
    /// Moves time on to the next thing that will happen, and says on which channel (by the number
    /// that add_channel gave it); nothing if nothing will.
    std::function<std::optional<int>()> advance;
  };
  explicit StepDriver(Options options);

  /// The channel must outlive the driver.
  int add_channel(Channel& channel);
  int add_channel(Channel& channel, const Scheduler::ChannelLimits& limits);
  /// Adds a memory for intermediate buffers; returns its number.
  int add_memory(BufferPool::MemoryLimits limits) { return buffers_.add_memory(std::move(limits)); }

  void submit(std::shared_ptr<Transfer> transfer,
              const std::vector<std::shared_ptr<Completion>>& after);
  void cancel(const std::shared_ptr<Transfer>& transfer, const Error& error);

  /// Issues what can be now; if there is nothing, lets time move on to what happens next. False if
  /// nothing moved and nothing will.
  bool step();

  /// Steps until all transfers have ended. False if some never will: a deadlock.
  bool run();

  /// Ends all transfers with `error`, those with requests in flight as time lets these end.
  void close(const Error& error);

  std::size_t outstanding() const { return scheduler_.transfers().size(); }
  /// Requests that have ended on all channels.
  std::int64_t requests_ended() const { return requests_ended_; }
  const BufferPool& buffers() const { return buffers_; }

 private:
  struct InFlight {
    Job job;
    RequestNests nests;
    std::int64_t begin_ns = 0;
  };
  struct Line {
    Channel* channel = nullptr;
    bool due = false;  ///< in `due_`
  };
  void issue(int number);
  void collect(int number);
  std::uint32_t take_flight();
  void apply();

  Options options_;
  BufferPool buffers_;
  Scheduler scheduler_;
  std::vector<Line> lines_;  ///< by channel
  std::vector<int> due_;     ///< channels that may have work
  std::vector<InFlight> flights_;
  std::vector<std::uint32_t> flights_free_;
  Scheduler::Changes changes_;
  std::int64_t requests_ended_ = 0;
};

}  // namespace tranship
