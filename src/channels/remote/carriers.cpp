#include "channels/remote/carriers.hpp"

#include <iterator>
#include <system_error>
#include <utility>

namespace tranship::fabric {

Carriers::Carriers(int threads, OnEnd on_end) : on_end_(std::move(on_end)) {
  try {
    for (int k = 0; k < threads; ++k) threads_.emplace_back([this] { run(); });
  } catch (const std::system_error&) {
    if (!threads_.empty()) return;  // those that have started do the work
    throw;
  }
}

Carriers::~Carriers() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  posted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Carriers::post(Job job) {
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  posted_.notify_one();
}

std::optional<Carriers::Job> Carriers::take_scattered(
    const std::function<bool(const Link&)>& usable) {
  std::lock_guard lock(mutex_);
  for (auto job = jobs_.rbegin(); job != jobs_.rend(); ++job) {
    if (!job->scattered || !usable(*job->link)) continue;
    std::optional<Job> taken(std::move(*job));
    jobs_.erase(std::next(job).base());
    return taken;
  }
  return std::nullopt;
}

void Carriers::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    posted_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    Requester& requester = *job.link->requester;
    auto status = job.memory ? requester.carried(job.transfer, *job.memory, *job.cancelled)
                             : requester.direct_at_length(job.transfer);
    on_end_(std::move(job), std::move(status));
    lock.lock();
  }
}

}  // namespace tranship::fabric
