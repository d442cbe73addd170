#include "engine/event.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <thread>

#include "engine/waiting.hpp"

namespace tranship {

Status wait_for_flight(const GpuFlight& flight, std::chrono::steady_clock::time_point deadline) {
  // A sleep takes 0.1 ms and more, which is noticed in a copy that takes less than 50 ms.
  constexpr std::chrono::milliseconds eager{50};
  const auto begin = std::chrono::steady_clock::now();
  while (!flight.done()) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline) {
      return Error{ErrorCode::timeout,
                   "the copy on the GPU has not ended within the timeout; it goes on"};
    }
    if (now - begin < eager) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  return flight.status();
}

Error forked_error() {
  return {ErrorCode::closed,
          "this process was forked after the engine was opened, and threads do not survive a fork",
          "open an engine of its own here (or start processes with spawn)"};
}

bool Event::done() const {
  if (!parts_.empty()) {
    return std::all_of(parts_.begin(), parts_.end(), [](const Event& part) { return part.done(); });
  }
  if (flight_) return !forked() && flight_->done();
  return !transfer_ || transfer_->completion->done();
}

bool Event::ended_well() const {
  if (!parts_.empty() || flight_) return false;
  return !transfer_ || (transfer_->completion->done() && transfer_->completion->status());
}

Status Event::wait(std::optional<std::chrono::nanoseconds> timeout) const {
  using Clock = std::chrono::steady_clock;
  const auto deadline = timeout ? Clock::now() + *timeout : Clock::time_point::max();
  if (!parts_.empty()) {
    Status first;
    for (const Event& part : parts_) {
      Status status = part.wait(timeout ? std::optional(deadline - Clock::now()) : std::nullopt);
      if (first) first = std::move(status);
    }
    return first;
  }
  if (!transfer_ && !flight_) return {};
  if (forked() && !(transfer_ && transfer_->completion->done())) return forked_error();
  if (flight_) return wait_for_flight(*flight_, deadline);
  if (!done()) {
    if (const auto driver = driver_.lock()) {
      driver->help(*transfer_, deadline);
      driver->look_out(*transfer_->completion);
    }
  }
  if (!timeout) return transfer_->completion->wait({});
  const auto left = std::max<std::chrono::nanoseconds>(deadline - Clock::now(), {});
  return transfer_->completion->wait(left);
}

bool Event::cancel() const {
  if (!parts_.empty()) {
    bool any = false;
    for (const Event& part : parts_) any |= part.cancel();
    return any;
  }
  if (forked() || flight_ || !transfer_) return false;  // what a GPU has begun it ends
  if (done()) {
    const Status& status = transfer_->completion->status();
    return !status && status.error().code == ErrorCode::cancelled;
  }
  const auto driver = driver_.lock();
  return driver && driver->cancel(transfer_);
}

Progress Event::progress() const {
  Progress all{ended_bytes_, ended_bytes_, 0};
  for (const Event& part : parts_) {
    const Progress one = part.progress();
    all.bytes_done += one.bytes_done;
    all.bytes_total += one.bytes_total;
    const bool known = all.seconds_left && one.seconds_left;
    all.seconds_left =
        known ? std::optional(std::max(*all.seconds_left, *one.seconds_left)) : std::nullopt;
  }
  if (!parts_.empty() || !plan_) return all;
  const std::int64_t total = plan_->bytes;
  const bool ended = done();
  const bool well = ended && wait(std::chrono::nanoseconds{0});
  std::int64_t arrived = well ? total : 0;
  if (transfer_ && !well) {
    const std::atomic_ref ended_bytes(transfer_->bytes_ended);
    arrived = std::min(ended_bytes.load(std::memory_order_relaxed), total);
  }
  all.bytes_done += arrived;
  all.bytes_total += total;
  if (ended) return all;
  all.seconds_left.reset();
  if (plan_->seconds > 0 && total > 0) {
    all.seconds_left =
        plan_->seconds * static_cast<double>(total - arrived) / static_cast<double>(total);
  }
  return all;
}

Event Event::followed_by(std::vector<Event> notices) const {
  std::vector<Event> all = parts();
  if (parts_.empty()) all[0].ended_bytes_ = 0;  // they are counted below
  std::move(notices.begin(), notices.end(), std::back_inserter(all));
  Event event(std::move(all));
  event.ended_bytes_ = ended_bytes_;
  return event;
}

std::shared_ptr<Completion> Event::completion() const {
  return transfer_ ? transfer_->completion : nullptr;
}

}  // namespace tranship
