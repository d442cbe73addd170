#include "c/workers.hpp"

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>

namespace tranship::c_api {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t threads_max = 4;
/// Longest sleep: a missed wake-up costs at most this.
constexpr std::chrono::seconds wake_interval{1};
/// Longest time until a job that waits is tried again,
constexpr milliseconds again_interval{250};
/// with this for each such job: many of them together take little of a processor;
constexpr std::chrono::microseconds again_each{200};
/// and that after something has changed while it was tried, twice in a row.
constexpr milliseconds hasty_interval{10};
/// Longest wait for a notice: jobs that begin to wait meanwhile are seen then.
constexpr milliseconds slice{50};

}  // namespace

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  if (watcher_.joinable()) watcher_.join();
}

/// Starts what a new job needs. The caller holds the lock.
void Workers::start_threads() {
  if (!watcher_.joinable()) watcher_ = std::thread([this] { watch(); });
  if (jobs_.size() < idle_ || threads_.size() >= threads_max) return;
  try {
    threads_.emplace_back([this] { serve(); });
  } catch (const std::system_error&) {
    if (threads_.empty()) throw;  // the threads that exist do the work
  }
}

bool Workers::run(Job job) {
  const std::lock_guard lock(mutex_);
  if (finished_) return false;
  start_threads();
  const bool lasting = job.lasting;
  jobs_.push_back({std::move(job), 0, {}, false});
  if (lasting) ++lasting_;
  ++left_;
  changed_.notify_all();
  return true;
}

/// Moves the jobs for which nobody waits from one list to another.
void Workers::refuse_all(std::deque<Waiting>& jobs, std::vector<Job>& refused) {
  const auto kept = std::stable_partition(jobs.begin(), jobs.end(),
                                          [](const Waiting& one) { return one.job.lasting; });
  for (auto one = kept; one != jobs.end(); ++one) refused.push_back(std::move(one->job));
  jobs.erase(kept, jobs.end());
}

void Workers::finish() {
  std::vector<Job> refused;
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
    for (auto* jobs : {&jobs_, &again_, &waiting_}) refuse_all(*jobs, refused);
    left_ -= refused.size();
  }
  changed_.notify_all();
  for (const Job& job : refused) {
    if (job.refuse) job.refuse();
  }
  std::unique_lock lock(mutex_);
  while (lasting_ > 0) changed_.wait_for(lock, wake_interval);
}

/// Waits for the next job, and says whether it was tried before; nothing if there will be no more.
std::optional<Workers::Waiting> Workers::take(std::unique_lock<std::mutex>& lock, bool& again) {
  const auto from = [](std::deque<Waiting>& jobs) {
    Waiting first = std::move(jobs.front());
    jobs.pop_front();
    return first;
  };
  while (true) {
    if (!jobs_.empty()) return from(jobs_);
    if (!again_.empty() && trying_again_ < threads_max / 2) {
      ++trying_again_;
      again = true;
      return from(again_);
    }
    if (ending_ && left_ == 0) return {};
    ++idle_;
    changed_.wait_for(lock, wake_interval);
    --idle_;
  }
}

/// Keeps a job until something changes.
void Workers::put_off(Waiting one) {
  const bool haste = notices_.count() != one.seen;
  std::unique_lock lock(mutex_);
  if (finished_ && !one.job.lasting) {
    lock.unlock();
    if (one.job.refuse) one.job.refuse();
    return end_one(false);
  }
  const bool at_once = haste && !one.hasty;
  one.hasty = haste;
  const auto pause =
      haste ? Clock::duration(hasty_interval)
            : std::max<Clock::duration>(again_interval, again_each * std::ssize(waiting_));
  one.due = std::min(Clock::now() + pause, one.job.ends);
  (at_once ? again_ : waiting_).push_back(std::move(one));
  changed_.notify_all();
}

void Workers::end_one(bool lasting) {
  const std::lock_guard lock(mutex_);
  if (lasting) --lasting_;
  --left_;
  changed_.notify_all();
}

void Workers::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    bool again = false;
    auto one = take(lock, again);
    if (!one) return;
    lock.unlock();
    const auto left = std::chrono::duration_cast<milliseconds>(
        std::min<Clock::duration>(one->job.ends - Clock::now(), std::chrono::hours(24 * 365)));
    const bool lasting = one->job.lasting;
    one->seen = notices_.count ? notices_.count() : 0;
    if (one->job.attempt(std::max(left, milliseconds(0)), left <= milliseconds(0))) {
      one.reset();
      end_one(lasting);
    } else {
      put_off(std::move(*one));
    }
    lock.lock();
    if (again) --trying_again_;
    changed_.notify_all();
  }
}

void Workers::watch() {
  std::unique_lock lock(mutex_);
  while (true) {
    // All are tried once before any is tried twice.
    while (!again_.empty() || waiting_.empty()) {
      if (ending_ && left_ == 0) return;
      changed_.wait_for(lock, wake_interval);
    }
    const std::uint64_t seen = notices_.count();
    const auto now = Clock::now();
    const auto due = std::stable_partition(
        waiting_.begin(), waiting_.end(),
        [&](const Waiting& one) { return one.seen == seen && one.due > now; });
    if (due != waiting_.end()) {
      again_.insert(again_.end(), std::make_move_iterator(due),
                    std::make_move_iterator(waiting_.end()));
      waiting_.erase(due, waiting_.end());
      changed_.notify_all();
      continue;
    }
    const auto first = std::min_element(
        waiting_.begin(), waiting_.end(),
        [](const Waiting& one, const Waiting& other) { return one.due < other.due; });
    const auto left = std::chrono::ceil<milliseconds>(first->due - now);
    lock.unlock();
    notices_.wait(seen, std::min(left, slice));
    lock.lock();
  }
}

}  // namespace tranship::c_api
