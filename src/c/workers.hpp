// Threads that carry out asynchronous puts and gets.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace tranship::c_api {

/// Runs jobs in the order of the calls of run(), on up to four threads, each of which is started
/// when a job finds no idle thread. A job that has to wait for other clients gives its thread back.
/// One more thread waits for notices, and queues such jobs again when one has come; at most half of
/// the threads run them. Any thread may call run(). The destructor waits until all jobs have ended.
class Workers {
 public:
  using Clock = std::chrono::steady_clock;

  /// Notices of the staging service, which come when other clients have done something.
  struct Notices {
    std::function<std::uint64_t()> count;
    std::function<void(std::uint64_t seen, std::chrono::milliseconds timeout)> wait;
  };

  explicit Workers(Notices notices) : notices_(std::move(notices)) {}
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers();

  /// A piece of work. Neither function may throw.
  struct Job {
    /// Carries the job out within `left`, and returns true. Unless it may wait, it returns false
    /// where it would have to wait for others, and has changed nothing.
    std::function<bool(std::chrono::milliseconds left, bool waits)> attempt;
    std::function<void()> refuse;  ///< called instead if the job never ends; empty: nothing
    bool lasting = true;           ///< finish() waits for it
    Clock::time_point ends = Clock::time_point::max();
  };

  /// Queues a job. Returns false after finish(). Throws std::system_error if the operating system
  /// refuses the first threads.
  bool run(Job job);

  /// Ends the queue: later calls of run() return false, and jobs that are not lasting are refused,
  /// but for those under way. Waits for lasting jobs.
  void finish();

 private:
  struct Waiting {
    Job job;
    std::uint64_t seen = 0;   ///< count of notices when the job was last tried
    Clock::time_point due{};  ///< when it is tried again at the latest
    bool hasty = false;       ///< whether it was tried again at once
  };

  void start_threads();
  std::optional<Waiting> take(std::unique_lock<std::mutex>& lock, bool& again);
  void put_off(Waiting one);
  void end_one(bool lasting);
  static void refuse_all(std::deque<Waiting>& jobs, std::vector<Job>& refused);
  void serve();
  void watch();

  Notices notices_;
  std::mutex mutex_;  ///< guards all following members
  std::condition_variable changed_;
  std::deque<Waiting> jobs_;     ///< that were not tried yet
  std::deque<Waiting> again_;    ///< jobs to be tried again
  std::deque<Waiting> waiting_;  ///< jobs that wait for a notice
  std::vector<std::thread> threads_;
  std::thread watcher_;
  std::size_t idle_ = 0;
  std::size_t trying_again_ = 0;
  std::size_t lasting_ = 0;  ///< lasting jobs that have not ended
  std::size_t left_ = 0;     ///< jobs that have not ended
  bool finished_ = false;    ///< finish() was called
  bool ending_ = false;      ///< the destructor has begun
};

}  // namespace tranship::c_api
