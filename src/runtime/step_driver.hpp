// Runs a scheduler without threads, on whatever time its channels keep: virtual time in simulations
// (design: I3). The same scheduler, transfers and channel interface as the threads use.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/clock.hpp"
#include "base/trace.hpp"
#include "runtime/channel.hpp"
#include "runtime/scheduler.hpp"

namespace tranship {

/// Not thread-safe. Channels must be asynchronous: a request ends through poll().
class StepDriver {
 public:
  struct Options {
    std::vector<BufferPool::MemoryLimits> memories;
    int jobs_in_flight_max = 16;
    const Clock* clock = nullptr;
    Trace* trace = nullptr;
    /// Moves time on to the next thing that will happen; false if nothing will.
    std::function<bool()> advance;
  };
  explicit StepDriver(Options options);

  /// The channel must outlive the driver.
  int add_channel(Channel& channel);
  void submit(std::shared_ptr<Transfer> transfer,
              const std::vector<std::shared_ptr<Completion>>& after);
  void cancel(const std::shared_ptr<Transfer>& transfer, const Error& error);

  /// Issues and collects what can be now, then advances. False if nothing moved and nothing will.
  bool step();

  /// Steps until all transfers have ended. False if some never will: a deadlock.
  bool run();

  std::size_t outstanding() const { return scheduler_.transfers().size(); }
  const BufferPool& buffers() const { return buffers_; }

 private:
  struct InFlight {
    Job job;
    std::vector<LoopNest> nests;
    std::int64_t begin_ns = 0;
    bool used = false;
  };
  struct Lane {
    Channel* channel = nullptr;
    std::vector<std::unique_ptr<InFlight>> flights;
  };
  bool issue(int number);
  bool collect(int number);
  void apply(Scheduler::Changes& changes);

  Options options_;
  BufferPool buffers_;
  Scheduler scheduler_;
  std::vector<Lane> lanes_;
};

}  // namespace tranship
