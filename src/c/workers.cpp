#include "c/workers.hpp"

#include <chrono>
#include <system_error>
#include <utility>

namespace tranship::c_api {
namespace {

constexpr std::size_t threads_max = 4;
/// Longest sleep: a missed wake-up costs at most this.
constexpr std::chrono::seconds wake_interval{1};

}  // namespace

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool Workers::run(Job job) {
  const std::lock_guard lock(mutex_);
  if (finished_) return false;
  if (jobs_.size() >= idle_ && threads_.size() < threads_max) {
    try {
      threads_.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {
      if (threads_.empty()) throw;  // the threads that exist do the work
    }
  }
  jobs_.push_back(std::move(job));
  changed_.notify_all();
  return true;
}

void Workers::finish() {
  std::deque<Job> jobs;
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
    jobs.swap(jobs_);
  }
  for (const Job& job : jobs) {
    if (job.lasting) {
      job.work();
    } else if (job.refuse) {
      job.refuse();
    }
  }
  std::unique_lock lock(mutex_);
  while (lasting_ > 0) changed_.wait_for(lock, wake_interval);
}

void Workers::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    while (jobs_.empty() && !ending_) changed_.wait_for(lock, wake_interval);
    --idle_;
    if (jobs_.empty()) return;
    auto job = std::move(jobs_.front());
    jobs_.pop_front();
    const bool lasting = job.lasting;
    if (lasting) ++lasting_;
    lock.unlock();
    job.work();
    job = {};
    lock.lock();
    if (lasting) --lasting_;
    if (finished_) changed_.notify_all();
  }
}

}  // namespace tranship::c_api
