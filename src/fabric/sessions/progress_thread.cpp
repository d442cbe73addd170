#include "fabric/sessions/progress_thread.hpp"

#include <sched.h>

#include <algorithm>
#include <array>

namespace tranship::fabric {
namespace {

constexpr std::chrono::milliseconds attending_sleep_max{100};
// Tags of the descriptors that wake a thread; all others are connections whose process has exited.
constexpr std::uint64_t wire_event = ~std::uint64_t{0};
constexpr std::uint64_t inbox_event = wire_event - 1;
constexpr std::uint64_t bell_event = inbox_event - 1;

}  // namespace

Status ProgressThread::start(std::shared_ptr<FabricCore> core) {
  core_ = std::move(core);
  const int wire = core_->wire()->event_descriptor();
  EventSet& events = core_->events();
  const int inbox = core_->inbox().descriptor();
  if (!events.open() || inbox < 0 || !events.add(wire, wire_event) ||
      !events.add(inbox, inbox_event) || !attendance_.open() ||
      !attendance_.add(wire, wire_event) ||
      !attendance_.add(core_->bell().descriptor(), bell_event)) {
    return no_descriptors();
  }
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& refused) {
    return Error{ErrorCode::out_of_memory,
                 std::string("no thread for links to other processes: ") + refused.what(),
                 "raise the limit of threads (ulimit -u)"};
  }
  return {};
}

void ProgressThread::end() {
  if (!thread_.joinable()) return;
  core_->start_close();
  thread_.join();
}

void ProgressThread::run() {
  auto busy = std::chrono::steady_clock::now();
  while (!core_->finished()) {
    bool any = false;
    {
      std::lock_guard lock(step_mutex_);
      any = core_->step();
    }
    const auto time = std::chrono::steady_clock::now();
    if (any) {
      busy = time;
    } else if (time - busy < spin_) {
      sched_yield();
    } else {
      sleep();
    }
  }
}

void ProgressThread::sleep() {
  if (!core_->inbox().arm() || !core_->wire()->arm()) return;
  std::chrono::milliseconds at_most{};
  {
    std::lock_guard lock(step_mutex_);
    at_most = core_->next_step_in();
  }
  std::array<epoll_event, 16> room;
  const auto came = core_->events().wait(room, static_cast<int>(at_most.count()));
  std::lock_guard lock(step_mutex_);
  for (const epoll_event& event : came) {
    const std::uint64_t tag = event.data.u64;
    if (tag == inbox_event) {
      core_->inbox().drain();
    } else if (tag != wire_event) {
      core_->on_process_ended(tag);
    }
  }
  core_->lift_fences();
}

/// Handles messages while a caller attends to the wire. All other work is left to the progress
/// thread, which is woken if a fence was raised, since it would otherwise sleep too long.
bool ProgressThread::step_for_caller() {
  std::lock_guard lock(step_mutex_);
  if (core_->finished()) return false;
  const bool fenced_before = core_->fenced();
  const bool any = core_->step_wire();
  if (!fenced_before && core_->fenced()) core_->inbox().post([] {});
  return any;
}

void ProgressThread::attend(std::uint32_t seen, std::chrono::nanoseconds at_most) {
  using Clock = std::chrono::steady_clock;
  AttendedBell& bell = core_->bell();
  const auto wire = core_->wire();
  const std::unique_lock attending(attending_mutex_, std::try_to_lock);
  if (!attending || !wire || core_->closed()) return bell.bell().wait(seen, at_most);
  const auto end = Clock::now() + at_most;
  const int descriptor = wire->event_descriptor();
  bell.set_attended(true);
  core_->events().change(descriptor, wire_event, 0);  // the wire does not wake the thread
  auto busy = Clock::now();
  while (bell.bell().rings() == seen && !core_->closed()) {
    const bool any = step_for_caller();
    const auto time = Clock::now();
    if (time >= end) break;
    if (any) busy = time;
    if (time - busy >= spin_) {
      sleep_as_caller(end - time);
    } else if (!any) {
      sched_yield();
    }
  }
  core_->events().change(descriptor, wire_event, EPOLLIN);
  bell.set_attended(false);
}

void ProgressThread::sleep_as_caller(std::chrono::nanoseconds at_most) {
  const auto limit =
      std::min(std::chrono::ceil<std::chrono::milliseconds>(at_most), attending_sleep_max);
  std::array<epoll_event, 4> room;
  for (const epoll_event& event : attendance_.wait(room, static_cast<int>(limit.count()))) {
    if (event.data.u64 == bell_event) core_->bell().drain();
  }
}

}  // namespace tranship::fabric
