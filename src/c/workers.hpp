// Threads for what goes on behind the caller's back.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tranship::c_api {

/// Runs jobs in the order in which they come, on up to four threads that are started when there is
/// work. Any thread may call run(). The destructor waits until all jobs have ended.
class Workers {
 public:
  Workers() = default;
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers();

  /// Neither function may throw.
  struct Job {
    std::function<void()> work;
    std::function<void()> refuse;  ///< called instead if the job never begins; empty: nothing
    bool lasting = true;           ///< finish() carries it out, or waits for it
  };

  /// Returns false after finish(). Throws std::system_error if the system refuses the first thread.
  bool run(Job job);

  /// Takes no more jobs. Refuses those that have not begun and are not lasting, carries out the
  /// others on the caller's thread, and waits for those lasting jobs that run.
  void finish();

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  std::size_t lasting_ = 0;  ///< jobs that run
  bool finished_ = false;
  bool ending_ = false;
};

}  // namespace tranship::c_api
