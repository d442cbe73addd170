#include "runtime/step_driver.hpp"

#include <algorithm>
#include <array>

#include "base/at.hpp"

namespace tranship {
namespace {}  // namespace

StepDriver::StepDriver(Options options)
    : options_(std::move(options)), buffers_(options_.memories), scheduler_({}, buffers_) {}

int StepDriver::add_channel(Channel& channel) {
  return add_channel(channel,
                     {channel.capabilities().bytes_in_flight_max, options_.jobs_in_flight_max, 1});
}

int StepDriver::add_channel(Channel& channel, const Scheduler::ChannelLimits& limits) {
  lines_.push_back({&channel, false});
  return scheduler_.add_channel(limits);
}

void StepDriver::submit(std::shared_ptr<Transfer> transfer,
                        const std::vector<std::shared_ptr<Completion>>& after) {
  transfer->blockers = static_cast<int>(after.size());
  scheduler_.admit(transfer, changes_);
  apply();
  for (const auto& event : after) {
    event->on_end([this, transfer](const Status& status) {
      scheduler_.unblock(transfer, status, changes_);
      apply();
    });
  }
}

void StepDriver::cancel(const std::shared_ptr<Transfer>& transfer, const Error& error) {
  scheduler_.cancel(transfer, error, changes_);
  apply();
}

bool StepDriver::step() {
  if (!due_.empty()) {
    // By index: a request that fails at once may add channels.
    for (std::size_t k = 0; k < due_.size(); ++k) {
      lines_[at(due_[k])].due = false;
      issue(due_[k]);
    }
    due_.clear();
    return true;
  }
  const std::optional<int> happened = options_.advance();
  if (!happened) return false;
  if (*happened != no_channel) collect(*happened);
  return true;
}

bool StepDriver::run() {
  while (outstanding() > 0) {
    if (!step()) return false;
  }
  return true;
}

void StepDriver::close(const Error& error) {
  const auto open = scheduler_.transfers();
  for (const auto& transfer : open) cancel(transfer, error);
  (void)run();
}

std::uint32_t StepDriver::take_flight() {
  if (flights_free_.empty()) {
    flights_free_.push_back(static_cast<std::uint32_t>(flights_.size()));
    flights_.emplace_back();
  }
  const std::uint32_t number = flights_free_.back();
  flights_free_.pop_back();
  return number;
}

void StepDriver::issue(int number) {
  while (auto job = scheduler_.next(number)) {
    Channel& channel = *lines_[at(number)].channel;
    const std::uint32_t taken = take_flight();
    InFlight& flight = flights_[taken];
    flight.job = std::move(*job);
    flight.begin_ns = options_.trace != nullptr ? options_.clock->now_ns() : 0;
    Request request = options_.with_data ? prepare(flight.job, channel.capabilities(), flight.nests)
                                         : outline(flight.job);
    request.tag = taken;
    if (Status status = channel.submit(request); !status) {
      const Job failed = std::move(flight.job);
      flights_free_.push_back(taken);
      scheduler_.complete(failed, std::move(status), changes_);
      apply();
    }
  }
}

void StepDriver::collect(int number) {
  Channel& channel = *lines_[at(number)].channel;
  std::array<Finished, 8> finished;
  const std::size_t count = channel.poll(finished);
  for (std::size_t k = 0; k < count; ++k) {
    const auto landed = static_cast<std::uint32_t>(finished[k].tag);
    InFlight& flight = flights_[landed];
    if (options_.trace != nullptr) {
      options_.trace->add({flight.job.transfer->label, channel.name(), flight.begin_ns,
                           options_.clock->now_ns(), flight.job.bytes, flight.job.tile, number});
    }
    ++requests_ended_;
    const Job ended = std::move(flight.job);
    flights_free_.push_back(landed);
    scheduler_.complete(ended, std::move(finished[k].status), changes_);
    apply();
  }
}

/// Notes the channels to visit and ends events. What their callbacks submit comes back here, so the
/// changes are taken out first.
void StepDriver::apply() {
  for (const int number : changes_.channels) {
    Line& line = lines_[at(number)];
    if (line.due) continue;
    line.due = true;
    due_.push_back(number);
  }
  changes_.channels.clear();
  if (changes_.ended.empty()) return;
  const auto ended = std::move(changes_.ended);
  changes_.ended.clear();
  for (const auto& transfer : ended) {
    transfer->keep_alive.clear();
    transfer->completion->end(transfer->failure);
  }
}

}  // namespace tranship
