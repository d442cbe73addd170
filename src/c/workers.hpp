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

  /// The job must not throw. Throws std::system_error if the system refuses the first thread.
  void run(std::function<void()> job);

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  bool ending_ = false;
};

}  // namespace tranship::c_api
