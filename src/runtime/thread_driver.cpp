#include "runtime/thread_driver.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <system_error>

#include "base/at.hpp"
#include "base/check.hpp"

namespace tranship {
namespace {

/// Longest sleep of a worker without work: every wait is bounded, and wake-ups come earlier.
constexpr std::chrono::milliseconds idle_max{100};

/// Synchronous workers that a signal wakes; each that finds work wakes another.
constexpr int woken_at_once = 2;

/// Tells the processor that this thread polls.
void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

/// Polls until `found` returns true or `at_most` has passed; returns what `found` returned last.
template <typename Found>
bool look(std::chrono::microseconds at_most, const Found& found) {
  if (at_most.count() <= 0) return found();
  constexpr int looks = 64;  // between two looks at the clock
  const auto end = std::chrono::steady_clock::now() + at_most;
  do {
    for (int k = 0; k < looks; ++k) {
      if (found()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return found();
}

Error closed_error() { return {ErrorCode::closed, "the engine is closed"}; }

}  // namespace

ThreadDriver::ThreadDriver(Options options)
    : options_(std::move(options)), buffers_(options_.memories), scheduler_({}, buffers_) {}

ThreadDriver::~ThreadDriver() {
  close({ErrorCode::closed, "the engine was closed before the transfer ended"});
  self_.reset();
  while (!let_go_.load(std::memory_order_acquire)) std::this_thread::yield();
}

int ThreadDriver::add_channel(Channel& channel) {
  std::lock_guard lock(mutex_);
  const Capabilities& capabilities = channel.capabilities();
  const int number = scheduler_.add_channel(
      {capabilities.bytes_in_flight_max,
       capabilities.synchronous ? capabilities.width : options_.jobs_in_flight_max});
  workers_.push_back(std::make_unique<Worker>());
  Worker& worker = *workers_.back();
  worker.channel = &channel;
  try {
    start(worker, number);
  } catch (const std::system_error&) {
    if (worker.threads.empty()) {
      worker.channel = nullptr;  // it may go before the driver does
      throw;
    }
  }
  return number;
}

void ThreadDriver::start(Worker& worker, int number) {
  const Capabilities& capabilities = worker.channel->capabilities();
  if (!capabilities.synchronous) {
    worker.threads.emplace_back([this, number] { run_asynchronous(number); });
    return;
  }
  const int threads = std::max(capabilities.width - 1, 1);
  for (int thread = 0; thread < threads; ++thread) {
    worker.sleepers.push_back(std::make_unique<Sleeper>());
  }
  for (int thread = 0; thread < threads; ++thread) {
    worker.threads.emplace_back([this, number, thread] { run_synchronous(number, thread); });
  }
}

void ThreadDriver::submit(std::shared_ptr<Transfer> transfer,
                          const std::vector<std::shared_ptr<Completion>>& after) {
  if (Attachment* attached = transfer->target.attachment; attached != nullptr) {
    auto ended = attached->note_transfer(transfer->label, transfer->plan->bytes);
    if (ended) transfer->completion->on_end(std::move(ended));
  }
  std::vector<std::shared_ptr<Completion>> pending;
  for (const auto& event : after) {
    if (event) pending.push_back(event);
  }
  {
    std::unique_lock lock(mutex_);
    if (stopping_) {
      lock.unlock();
      transfer->completion->end(closed_error());
      return;
    }
    Scheduler::Changes changes;
    transfer->blockers = static_cast<int>(pending.size());
    scheduler_.admit(transfer, changes);
    apply(lock, changes);
  }
  for (const auto& event : pending) {
    event->on_end([weak = std::weak_ptr(self_), transfer](const Status& status) {
      const auto self = weak.lock();
      if (!self || transfer->completion->done()) return;  // it was cancelled, or closed
      std::unique_lock lock(self->mutex_);
      Scheduler::Changes changes;
      self->scheduler_.unblock(transfer, status, changes);
      self->apply(lock, changes);
    });
  }
}

std::shared_ptr<Completion> ThreadDriver::completion_of(std::shared_ptr<const PolledEvent> event,
                                                        int channel) {
  auto completion = std::make_shared<Completion>();
  {
    std::lock_guard lock(mutex_);
    CHECK(!worker(channel).channel->capabilities().synchronous,
          "events are watched by the thread of an asynchronous channel");
    if (!stopping_) {
      worker(channel).watches.push_back({std::move(event), completion});
      ++worker(channel).signals;
      worker(channel).channel->wake();
      return completion;
    }
  }
  completion->end(closed_error());
  return completion;
}

bool ThreadDriver::cancel(const std::shared_ptr<Transfer>& transfer) {
  std::unique_lock lock(mutex_);
  Scheduler::Changes changes;
  scheduler_.cancel(transfer, {ErrorCode::cancelled, transfer->label + " was cancelled"}, changes);
  drains_.fetch_add(1, std::memory_order_release);
  for (const Descriptor& descriptor : transfer->descriptors) {
    changes.channels.push_back(descriptor.channel);  // requests in flight there may end early
  }
  const Status failure = transfer->failure;
  apply(lock, changes);
  return !failure && failure.error().code == ErrorCode::cancelled;
}

void ThreadDriver::stop(const Error& error) {
  std::unique_lock lock(mutex_);
  if (stopping_) return;
  stopping_ = true;
  Scheduler::Changes changes;
  const auto open = scheduler_.transfers();
  for (const auto& transfer : open) {
    scheduler_.cancel(transfer, {error.code, transfer->label + ": " + error.message, error.hint},
                      changes);
  }
  drains_.fetch_add(1, std::memory_order_release);
  for (int number = 0; number < static_cast<int>(workers_.size()); ++number) {
    changes.channels.push_back(number);
  }
  apply(lock, changes);
}

bool ThreadDriver::wait_ended(std::chrono::nanoseconds at_most) {
  const auto end = std::chrono::steady_clock::now() + at_most;
  std::unique_lock lock(mutex_);
  const auto ended = [&] { return helpers_ == 0 && scheduler_.transfers().empty(); };
  while (!ended()) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) return false;
    ended_.wait_until(lock, std::min(end, now + idle_max));
  }
  return true;
}

void ThreadDriver::close(const Error& error) {
  stop(error);
  const std::lock_guard joining(joining_);
  for (const auto& worker : workers_) {
    for (std::thread& thread : worker->threads) {
      if (thread.joinable()) thread.join();
    }
  }
  // What is left is carried by threads that help, each of which ends what it has begun.
  while (!wait_ended(std::chrono::seconds(1))) continue;
}

std::int64_t ThreadDriver::buffer_bytes_in_use(int memory) const {
  std::lock_guard lock(mutex_);
  return buffers_.bytes_in_use(memory);
}

std::vector<double> ThreadDriver::waiting_s(int priority) const {
  std::lock_guard lock(mutex_);
  return scheduler_.waiting_s(priority);
}

/// Signals workers under the lock, then ends events without it. Leaves the lock released.
void ThreadDriver::apply(std::unique_lock<std::mutex>& lock, Scheduler::Changes& changes) {
  std::sort(changes.channels.begin(), changes.channels.end());
  const auto last = std::unique(changes.channels.begin(), changes.channels.end());
  for (auto number = changes.channels.begin(); number != last; ++number) {
    Worker& one = worker(*number);
    if (one.channel == nullptr) continue;
    ++one.signals;
    if (one.channel->capabilities().synchronous) {
      one.help.notify_all();
      wake(one, stopping_ ? static_cast<int>(one.sleepers.size()) : woken_at_once);
    } else {
      one.channel->wake();
    }
  }
  if (stopping_) ended_.notify_all();
  lock.unlock();
  for (const auto& transfer : changes.ended) {
    Status status = transfer->failure;
    if (status && transfer->final_check) status = transfer->final_check();
    transfer->final_check = nullptr;
    transfer->keep_alive.clear();
    transfer->completion->end(std::move(status));
  }
  changes.ended.clear();
  changes.channels.clear();
}

/// Wakes the workers of the lowest numbers, so that the same ones work while few are needed.
void ThreadDriver::wake(Worker& worker, int count) {
  for (const auto& sleeper : worker.sleepers) {
    if (count == 0) return;
    if (!sleeper->sleeps) continue;
    sleeper->sleeps = false;
    sleeper->work.notify_one();
    --count;
  }
}

void ThreadDriver::record(const Job& job, const Worker& worker, int row, std::int64_t begin_ns) {
  if (options_.trace == nullptr) return;
  options_.trace->add({job.transfer->label, worker.channel->name(), begin_ns,
                       options_.clock->now_ns(), job.bytes, job.tile, row});
}

bool ThreadDriver::look_for_signal(const Worker& worker, std::uint64_t seen) const {
  return look(options_.spin,
              [&] { return worker.signals.load(std::memory_order_relaxed) != seen; });
}

void ThreadDriver::look_out(const Completion& completion) const {
  look(options_.spin, [&] { return completion.done(); });
}

void ThreadDriver::run_synchronous(int number, int thread) {
  RequestNests nests;
  Scheduler::Changes changes;  // kept, so that a request allocates nothing
  std::unique_lock lock(mutex_);
  Worker& self = worker(number);
  bool worked = false;
  while (true) {
    const std::uint64_t seen = self.signals;
    auto job = scheduler_.next(number, thread);
    if (job) {
      if (!worked) wake(self, 1);  // where there is work for one there may be work for others
      carry(*job, number, worker_row(number, thread), nests, lock, changes);
      worked = true;
      continue;
    }
    if (stopping_) return;
    if (worked) {
      worked = false;
      lock.unlock();
      look_for_signal(self, seen);
      lock.lock();
      continue;
    }
    Sleeper& sleeper = *self.sleepers[at(thread)];
    sleeper.sleeps = true;
    sleeper.work.wait_for(lock, idle_max, [&] { return !sleeper.sleeps; });
    sleeper.sleeps = false;
  }
}

/// Runs one job of a synchronous channel. The lock is held before and after, not meanwhile.
void ThreadDriver::carry(Job& job, int number, int row, RequestNests& nests,
                         std::unique_lock<std::mutex>& lock, Scheduler::Changes& changes) {
  Worker& self = worker(number);
  lock.unlock();
  const std::int64_t begin_ns = options_.trace ? options_.clock->now_ns() : 0;
  Status status = self.channel->submit(prepare(job, self.channel->capabilities(), nests));
  if (!status) drains_.fetch_add(1, std::memory_order_release);
  record(job, self, row, begin_ns);
  lock.lock();
  scheduler_.complete(job, std::move(status), changes);
  if (changes.ended.empty() && changes.channels.size() == 1) {
    changes.channels.clear();  // only this channel: who called looks for the next job itself
    return;
  }
  job = {};
  apply(lock, changes);
  lock.lock();
}

void ThreadDriver::help(const Transfer& transfer, std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  ++helpers_;
  help_with(transfer, deadline, lock);
  --helpers_;
  if (stopping_) ended_.notify_all();
}

/// The lock is held before and after, not meanwhile.
void ThreadDriver::help_with(const Transfer& transfer,
                             std::chrono::steady_clock::time_point deadline,
                             std::unique_lock<std::mutex>& lock) {
  RequestNests nests;
  Scheduler::Changes changes;
  const auto helped = std::find_if(
      transfer.descriptors.begin(), transfer.descriptors.end(), [&](const Descriptor& descriptor) {
        return worker(descriptor.channel).channel->capabilities().synchronous;
      });
  if (helped == transfer.descriptors.end()) return;
  const int number = helped->channel;
  while (transfer.state == TransferState::running && transfer.tiles_left(*helped) &&
         std::chrono::steady_clock::now() < deadline) {
    const std::uint64_t seen = worker(number).signals;
    auto job = scheduler_.next(number);
    if (job) {
      carry(*job, number, own_row(), nests, lock, changes);
      continue;
    }
    if (transfer.descriptors.size() == 1) return;  // the workers have the rest
    lock.unlock();
    const bool signalled = look_for_signal(worker(number), seen);
    lock.lock();
    if (signalled) continue;
    const auto until = std::min(deadline, std::chrono::steady_clock::now() + idle_max);
    worker(number).help.wait_until(lock, until, [&] { return worker(number).signals != seen; });
  }
}

void ThreadDriver::run_asynchronous(int number) {
  std::vector<InFlight> flights(at(options_.jobs_in_flight_max));
  std::vector<Watch> watches;
  Worker* self = nullptr;
  {
    std::lock_guard lock(mutex_);
    self = &worker(number);
  }
  bool worked = false;
  while (true) {
    const std::uint64_t seen = self->signals;
    bool moved = collect(number, *self, flights);
    moved |= issue(number, *self, flights);
    cancel_drained(*self, flights);
    moved |= end_watches(*self, watches);
    worked |= moved;
    if (moved) continue;
    const bool busy = std::any_of(flights.begin(), flights.end(),
                                  [](const InFlight& flight) { return flight.used; });
    if (!busy) {
      std::lock_guard lock(mutex_);
      if (stopping_ && self->watches.empty() && watches.empty()) return;
    }
    if (!busy && worked) {
      worked = false;
      look_for_signal(*self, seen);
      continue;
    }
    if (watches.empty()) {
      self->channel->idle(idle_max);
    } else {
      std::this_thread::yield();  // a sleep would outlast most of what is watched
    }
  }
}

/// Ends the completions of events that have ended, or of all if the driver stops: nothing starts
/// after them any more. Events are asked without the lock, since they may take locks of their own.
bool ThreadDriver::end_watches(Worker& worker, std::vector<Watch>& watches) {
  bool stopping = false;
  {
    std::lock_guard lock(mutex_);
    stopping = stopping_;
    std::move(worker.watches.begin(), worker.watches.end(), std::back_inserter(watches));
    worker.watches.clear();
  }
  bool moved = false;
  for (std::size_t k = 0; k < watches.size();) {
    const bool done = watches[k].event->done();
    if (!done && !stopping) {
      ++k;
      continue;
    }
    const Watch ended = std::move(watches[k]);
    watches.erase(watches.begin() + static_cast<std::ptrdiff_t>(k));
    ended.completion->end(done ? ended.event->status() : Status(closed_error()));
    moved = true;
  }
  return moved;
}

bool ThreadDriver::issue(int number, Worker& worker, std::vector<InFlight>& flights) {
  bool moved = false;
  for (std::size_t k = 0; k < flights.size(); ++k) {
    InFlight& flight = flights[k];
    if (flight.used) continue;
    {
      std::lock_guard lock(mutex_);
      auto job = scheduler_.next(number);
      if (!job) return moved;
      flight.job = std::move(*job);
    }
    flight.used = true;
    flight.cancelled = false;
    flight.begin_ns = options_.trace ? options_.clock->now_ns() : 0;
    Request request = prepare(flight.job, worker.channel->capabilities(), flight.nests);
    request.tag = k;
    moved = true;
    if (Status status = worker.channel->submit(request); !status) {
      flight.used = false;
      std::unique_lock lock(mutex_);
      Scheduler::Changes changes;
      scheduler_.complete(flight.job, std::move(status), changes);
      flight.job = {};
      apply(lock, changes);
    }
  }
  return moved;
}

/// Cancels the requests of transfers that were cancelled or failed: these need not wait for a peer.
void ThreadDriver::cancel_drained(Worker& worker, std::vector<InFlight>& flights) {
  const std::uint64_t drains = drains_.load(std::memory_order_acquire);
  if (worker.drains_seen == drains) return;
  worker.drains_seen = drains;
  for (std::size_t k = 0; k < flights.size(); ++k) {
    InFlight& flight = flights[k];
    if (!flight.used || flight.cancelled) continue;
    {
      std::lock_guard lock(mutex_);
      flight.cancelled = flight.job.transfer->state == TransferState::draining;
    }
    if (flight.cancelled) worker.channel->cancel(k);
  }
}

bool ThreadDriver::collect(int number, Worker& worker, std::vector<InFlight>& flights) {
  std::array<Finished, 16> finished;
  const std::size_t count = worker.channel->poll(finished);
  for (std::size_t k = 0; k < count; ++k) {
    InFlight& flight = flights[finished[k].tag];
    record(flight.job, worker, worker_row(number, 0), flight.begin_ns);
    std::unique_lock lock(mutex_);
    Scheduler::Changes changes;
    scheduler_.complete(flight.job, std::move(finished[k].status), changes);
    flight.job = {};
    flight.used = false;
    apply(lock, changes);
  }
  return count > 0;
}

}  // namespace tranship
