// Threads that carry out asynchronous puts and gets.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tranship::c_api {

/// Runs jobs in the order of the calls of run(), on up to four threads, each started when a job
/// finds no idle one. Any thread may call run(). The destructor waits until all jobs have ended.
class Workers {
 public:
  Workers() = default;
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers();

  /// A piece of work. Neither function may throw.
  struct Job {
    std::function<void()> work;
    std::function<void()> refuse;  ///< called instead if the job never begins; empty: nothing
    bool lasting = true;           ///< finish() carries the job out, or waits for it
  };

  /// Queues a job. Returns false after finish(). Throws std::system_error if the operating system
  /// refuses the first thread.
  bool run(Job job);

  /// Ends the queue: later calls of run() return false. Lasting jobs that have not begun run on the
  /// caller's thread, others that have not begun are refused; waits for lasting jobs under way.
  void finish();

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  std::size_t lasting_ = 0;  ///< lasting jobs under way
  bool finished_ = false;    ///< finish() was called
  bool ending_ = false;      ///< the destructor has begun
};

}  // namespace tranship::c_api
