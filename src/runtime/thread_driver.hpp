// Runs a scheduler on threads and wall time.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/trace.hpp"
#include "runtime/channel.hpp"
#include "runtime/completion.hpp"
#include "runtime/scheduler.hpp"

namespace tranship {

/// Owns the workers: for a synchronous channel one thread less than its width, at least one, since
/// threads that wait for a transfer help; one thread for each other channel. Any thread may call
/// any member. Transfers end on worker threads, or on the caller's if there is nothing to wait for.
class ThreadDriver {
 public:
  struct Options {
    std::vector<BufferPool::MemoryLimits> memories;
    int jobs_in_flight_max = 16;  ///< of one asynchronous channel
    /// How long a thread that has just worked polls for more work before it sleeps.
    std::chrono::microseconds spin{0};
    const Clock* clock = nullptr;
    Trace* trace = nullptr;  ///< null: no tracing
  };
  explicit ThreadDriver(Options options);
  ~ThreadDriver();

  /// Starts the workers of a channel, which must outlive the driver; returns its number. Where the
  /// system refuses some of their threads the others do the work.
  /// @throws std::system_error if it refuses all: the channel is not used then
  int add_channel(Channel& channel);

  /// Starts a transfer after `after` have ended.
  void submit(std::shared_ptr<Transfer> transfer,
              const std::vector<std::shared_ptr<Completion>>& after);

  /// Returns what ends when `event` has ended, as that did: transfers can start after it. The
  /// thread of `channel`, which must not be synchronous, asks the event until then, and keeps it
  /// alive.
  std::shared_ptr<Completion> completion_of(std::shared_ptr<const PolledEvent> event, int channel);

  /// Lets the calling thread work for the transfer's first synchronous channel, as its workers do,
  /// while the transfer has tiles there that no thread has begun, until `deadline`: a thread that
  /// would otherwise wait is an idle core. Returns at once if there is no such channel.
  void help(const Transfer& transfer, std::chrono::steady_clock::time_point deadline);

  /// Ends the transfer as cancelled, once what is in flight has ended. Does nothing if it ended.
  /// Returns whether it ends so.
  bool cancel(const std::shared_ptr<Transfer>& transfer);

  /// Asks every transfer to end with `error`; from now on submit() ends what it is given with
  /// `closed`. A second call does nothing.
  void stop(const Error& error);

  /// After stop(): waits until all transfers have ended and no thread helps any more; returns false
  /// if some have not after `at_most`.
  bool wait_ended(std::chrono::nanoseconds at_most);

  /// Calls stop(), waits until all transfers have ended, and joins the workers. A second call does
  /// nothing.
  void close(const Error& error);

  /// Polls for the end of a transfer for as long as workers poll for work.
  void look_out(const Completion& completion) const;

  std::int64_t buffer_bytes_in_use(int memory) const;

  /// As Scheduler::waiting_s().
  std::vector<double> waiting_s(int priority) const;

 private:
  struct Sleeper {
    std::condition_variable work;
    bool sleeps = false;
  };
  /// An event outside the runtime that transfers wait for.
  struct Watch {
    std::shared_ptr<const PolledEvent> event;
    std::shared_ptr<Completion> completion;
  };
  struct Worker {
    Channel* channel = nullptr;                      ///< Null: the system refused its threads.
    std::vector<std::unique_ptr<Sleeper>> sleepers;  ///< of a synchronous channel's threads
    std::condition_variable help;                    ///< threads that wait for a transfer wait here
    std::atomic<std::uint64_t> signals{0};           ///< written under the driver's mutex
    std::vector<std::thread> threads;
    std::vector<Watch> watches;  ///< New events, which the thread of an asynchronous channel takes.
    std::uint64_t drains_seen =
        0;  ///< Value of drains_ that an asynchronous channel's thread has handled.
  };
  struct InFlight {
    Job job;
    RequestNests nests;
    std::int64_t begin_ns = 0;
    bool used = false;
    bool cancelled = false;  ///< The channel was told that its end is not waited for.
  };

  void start(Worker& worker, int number);
  void run_synchronous(int number, int thread);
  void help_with(const Transfer& transfer, std::chrono::steady_clock::time_point deadline,
                 std::unique_lock<std::mutex>& lock);
  static void wake(Worker& worker, int count);
  void carry(Job& job, int number, int row, RequestNests& nests, std::unique_lock<std::mutex>& lock,
             Scheduler::Changes& changes);
  void run_asynchronous(int number);
  bool issue(int number, Worker& worker, std::vector<InFlight>& flights);
  bool end_watches(Worker& worker, std::vector<Watch>& watches);
  bool collect(int number, Worker& worker, std::vector<InFlight>& flights);
  void cancel_drained(Worker& worker, std::vector<InFlight>& flights);
  bool look_for_signal(const Worker& worker, std::uint64_t seen) const;
  void apply(std::unique_lock<std::mutex>& lock, Scheduler::Changes& changes);
  void record(const Job& job, const Worker& worker, int row, std::int64_t begin_ns);
  Worker& worker(int number) { return *workers_[static_cast<std::size_t>(number)]; }

  Options options_;
  mutable std::mutex mutex_;
  BufferPool buffers_;
  Scheduler scheduler_;
  std::deque<std::unique_ptr<Worker>> workers_;
  bool stopping_ = false;
  /// Counts cancels and failures, after which transfers may have to be drained.
  std::atomic<std::uint64_t> drains_{0};
  int helpers_ = 0;                ///< threads inside help()
  std::condition_variable ended_;  ///< Notified when transfers and helpers end after stop().
  std::mutex joining_;             ///< held by the thread that joins the workers
  /// Referred to by callbacks at the ends of other transfers, which may run on threads of another
  /// engine while this driver is destroyed: the destructor waits until none of them holds it.
  std::atomic<bool> let_go_{false};
  std::shared_ptr<ThreadDriver> self_{
      this, [](ThreadDriver* driver) { driver->let_go_.store(true, std::memory_order_release); }};
};

}  // namespace tranship
