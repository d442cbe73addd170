#include "runtime/step_driver.hpp"

#include <algorithm>
#include <array>

namespace tranship {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

StepDriver::StepDriver(Options options)
    : options_(std::move(options)), buffers_(options_.memories), scheduler_({}, buffers_) {}

int StepDriver::add_channel(Channel& channel) {
  lanes_.push_back({&channel, {}});
  for (int k = 0; k < options_.jobs_in_flight_max; ++k) {
    lanes_.back().flights.push_back(std::make_unique<InFlight>());
  }
  return scheduler_.add_channel(
      {channel.capabilities().bytes_in_flight_max, options_.jobs_in_flight_max});
}

void StepDriver::submit(std::shared_ptr<Transfer> transfer,
                        const std::vector<std::shared_ptr<Completion>>& after) {
  Scheduler::Changes changes;
  transfer->blockers = static_cast<int>(after.size());
  scheduler_.admit(transfer, changes);
  apply(changes);
  for (const auto& event : after) {
    event->on_end([this, transfer](const Status& status) {
      Scheduler::Changes later;
      scheduler_.unblock(transfer, status, later);
      apply(later);
    });
  }
}

void StepDriver::cancel(const std::shared_ptr<Transfer>& transfer, const Error& error) {
  Scheduler::Changes changes;
  scheduler_.cancel(transfer, error, changes);
  apply(changes);
}

bool StepDriver::step() {
  bool moved = false;
  for (int number = 0; number < static_cast<int>(lanes_.size()); ++number) {
    moved |= collect(number);
  }
  for (int number = 0; number < static_cast<int>(lanes_.size()); ++number) {
    moved |= issue(number);
  }
  return moved || options_.advance();
}

bool StepDriver::run() {
  while (outstanding() > 0) {
    if (!step()) return false;
  }
  return true;
}

bool StepDriver::issue(int number) {
  Lane& lane = lanes_[at(number)];
  bool moved = false;
  for (std::size_t k = 0; k < lane.flights.size(); ++k) {
    InFlight& flight = *lane.flights[k];
    if (flight.used) continue;
    auto job = scheduler_.next(number);
    if (!job) break;
    moved = true;
    flight.job = std::move(*job);
    flight.used = true;
    flight.begin_ns = options_.clock ? options_.clock->now_ns() : 0;
    Request request = prepare(flight.job, flight.nests);
    request.tag = k;
    if (Status status = lane.channel->submit(request); !status) {
      const Job failed = std::move(flight.job);
      flight.used = false;
      Scheduler::Changes changes;
      scheduler_.complete(failed, std::move(status), changes);
      apply(changes);
    }
  }
  return moved;
}

bool StepDriver::collect(int number) {
  Lane& lane = lanes_[at(number)];
  std::array<Finished, 8> finished;
  const std::size_t count = lane.channel->poll(finished);
  for (std::size_t k = 0; k < count; ++k) {
    InFlight& flight = *lane.flights[finished[k].tag];
    if (options_.trace != nullptr) {
      options_.trace->add({flight.job.transfer->label, lane.channel->name(), flight.begin_ns,
                           options_.clock->now_ns(), flight.job.bytes, flight.job.tile, number});
    }
    const Job ended = std::move(flight.job);
    flight.used = false;
    Scheduler::Changes changes;
    scheduler_.complete(ended, std::move(finished[k].status), changes);
    apply(changes);
  }
  return count > 0;
}

void StepDriver::apply(Scheduler::Changes& changes) {
  for (const auto& transfer : changes.ended) {
    transfer->keep_alive.clear();
    transfer->completion->end(transfer->failure);
  }
}

}  // namespace tranship
