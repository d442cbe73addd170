#include "runtime/scheduler.hpp"

#include <algorithm>
#include <atomic>

#include "base/at.hpp"
#include "base/check.hpp"

namespace tranship {
namespace {

/// Slots start at pages, so that no two threads write one line.
constexpr std::int64_t slot_alignment = 4096;

/// Returns the tile that the descriptor issues next. The descriptor must be allowed to issue one.
std::int64_t tile_to_issue(const Transfer& transfer, const Descriptor& descriptor) {
  if (descriptor.input < 0) return transfer.tiles_begun;
  return transfer.slot(descriptor.input, descriptor.issued).tile;
}

/// Returns the error of a transfer that was to follow one that failed. However long the chain of
/// transfers is, the message names the last one, and the failure of the first.
Error failed_before(const std::string& label, const Error& error) {
  const std::string middle = " was to follow failed: ";
  const auto found = error.message.rfind(middle);
  const std::string first =
      found == std::string::npos ? error.message : error.message.substr(found + middle.size());
  return {error.code, "a transfer that " + label + middle + first, error.hint};
}

bool all_full(const Plan& plan) {
  for (std::size_t k = 0; k < plan.extents.size(); ++k) {
    if (plan.tile[k] > 1 && plan.extents[k] % plan.tile[k] != 0) return false;
  }
  return plan.tile_bytes > 0 && plan.tile_bytes * plan.tiles == plan.bytes;
}

}  // namespace

Scheduler::Scheduler(std::vector<ChannelLimits> channels, BufferPool& buffers)
    : buffers_(buffers), waiting_(buffers) {
  for (const ChannelLimits& limits : channels) add_channel(limits);
}

int Scheduler::add_channel(ChannelLimits limits) {
  channels_.push_back({limits, 0, 0, {}});
  return static_cast<int>(channels_.size()) - 1;
}

void Scheduler::lay_rings(Transfer& transfer) {
  const Plan& plan = *transfer.plan;
  std::size_t covered = 0;
  transfer.rings.reserve(plan.hops.size() - plan.lanes.size());
  transfer.buffer_requests.reserve(transfer.rings.capacity());
  transfer.slots.reserve(transfer.rings.capacity() * at(plan.slots));
  for (std::size_t number = 0; number < plan.lanes.size(); ++number) {
    const Lane& lane = plan.lanes[number];
    for (int k = 0; k < lane.hop_count; ++k, ++covered) {
      const int hop = lane.first_hop + k;
      Descriptor& descriptor = transfer.descriptors[at(hop)];
      descriptor.lane = static_cast<int>(number);
      if (k > 0) descriptor.input = transfer.descriptors[at(hop - 1)].output;
      if (k + 1 == lane.hop_count) continue;
      descriptor.output = static_cast<int>(transfer.rings.size());
      Ring ring;
      const std::int64_t bytes = std::max<std::int64_t>(plan.hops[at(hop)].target->end_bytes(), 1);
      ring.slot_bytes = (bytes + slot_alignment - 1) / slot_alignment * slot_alignment;
      for (int slot = 0; slot < plan.slots; ++slot) transfer.slots.push_back({-1, slot, 0});
      const int memory = descriptor.buffer_memory >= 0 ? descriptor.buffer_memory
                                                       : plan.hops[at(hop)].target_memory;
      transfer.buffer_requests.push_back({memory, ring.slot_bytes * plan.slots});
      transfer.rings.push_back(ring);
    }
  }
  CHECK(covered == plan.hops.size(), "every hop of a plan lies in one lane");
}

void Scheduler::admit(std::shared_ptr<Transfer> transfer, Changes& changes) {
  transfer->age = arrivals_++;
  const Plan& plan = *transfer->plan;
  CHECK(transfer->descriptors.size() == plan.hops.size(), "a descriptor for each hop");
  CHECK(!plan.lanes.empty() && plan.lanes.size() <= plan.hops.size(), "a plan has lanes of hops");
  CHECK(plan.tiles > 0, "an empty transfer has nothing to schedule");
  transfer->even = all_full(plan);
  lay_rings(*transfer);
  transfer->place = transfers_.size();
  transfers_.push_back(transfer);
  if (!buffers_.possible(transfer->buffer_requests)) {
    cancel(transfer,
           {ErrorCode::out_of_memory,
            "the intermediate buffers of " + transfer->label + " do not fit the memory's budget",
            "allow more memory"},
           changes);
    return;
  }
  if (transfer->blockers > 0) return;
  waiting_.enter(*transfer, granted_);
  start_granted(changes);
}

void Scheduler::unblock(const std::shared_ptr<Transfer>& transfer, const Status& status,
                        Changes& changes) {
  --transfer->blockers;
  if (transfer->state != TransferState::waiting) return;
  if (!status) {
    // It counts as blocked, so that cancel() does not look for it among those that wait for
    // buffers.
    ++transfer->blockers;
    cancel(transfer, failed_before(transfer->label, status.error()), changes);
    return;
  }
  if (transfer->blockers > 0) return;
  waiting_.enter(*transfer, granted_);
  start_granted(changes);
}

void Scheduler::start_granted(Changes& changes) {
  for (BufferWaiter* waiter : granted_) {
    const auto transfer = static_cast<Transfer*>(waiter)->shared_from_this();
    for (std::size_t k = 0; k < transfer->rings.size(); ++k) {
      transfer->rings[k].buffer = transfer->buffers[k].address;
    }
    transfer->state = TransferState::running;
    for (int hop = 0; hop < static_cast<int>(transfer->descriptors.size()); ++hop) {
      make_ready(transfer, hop, changes);
    }
  }
  granted_.clear();
}

bool Scheduler::goes_after(const Ready& a, const Ready& b) {
  if (a.priority != b.priority) return a.priority < b.priority;
  return a.age != b.age ? a.age > b.age : a.hop > b.hop;
}

void Scheduler::make_ready(const std::shared_ptr<Transfer>& transfer, int hop, Changes& changes) {
  Descriptor& descriptor = transfer->descriptors[at(hop)];
  if (descriptor.ready || !may_issue(*transfer, descriptor)) return;
  descriptor.ready = true;
  auto& ready = channels_[at(descriptor.channel)].ready;
  ready.push_back({transfer->priority, hop, transfer->age, transfer});
  std::push_heap(ready.begin(), ready.end(), goes_after);
  changes.channels.push_back(descriptor.channel);
}

bool Scheduler::may_issue(const Transfer& transfer, const Descriptor& descriptor) {
  if (transfer.state != TransferState::running) return false;
  if (descriptor.in_flight_max > 0 && descriptor.in_flight >= descriptor.in_flight_max) {
    return false;
  }
  const std::int64_t sequence = descriptor.issued;
  if (descriptor.input < 0) {
    if (transfer.tiles_begun >= transfer.plan->tiles) return false;
    if (transfer.plan->lanes.size() > 1 && !transfer.wants_tile(descriptor.lane)) return false;
  } else if (transfer.slot(descriptor.input, sequence).filled != sequence) {
    return false;
  }
  return descriptor.output < 0 || transfer.slot(descriptor.output, sequence).freed == sequence;
}

std::int64_t Scheduler::job_bytes(const Transfer& transfer, std::int64_t tile) {
  const Plan& plan = *transfer.plan;
  if (transfer.indexed) return transfer.indexed->tile_bytes(tile);
  if (transfer.even) return plan.tile_bytes;
  if (!transfer.fixed_nests.empty() || !plan.hops[0].source) return plan.bytes;
  const Mapping& mapping = *plan.hops[0].source;
  const TileBox box = tile_at(plan.extents, plan.tile, mapping.rank(), tile);
  std::int64_t bytes = mapping.point_bytes();
  for (int k = 0; k < mapping.rank(); ++k) bytes *= box.extents[at(k)];
  return bytes;
}

Job Scheduler::issue(const std::shared_ptr<Transfer>& transfer, int hop, std::int64_t tile) {
  Descriptor& descriptor = transfer->descriptors[at(hop)];
  if (descriptor.input < 0) ++transfer->tiles_begun;
  ++descriptor.in_flight;
  return {transfer, hop, descriptor.issued++, tile, 0};
}

std::vector<double> Scheduler::waiting_s(int priority) const {
  std::vector<double> seconds(channels_.size(), 0);
  for (const auto& transfer : transfers_) {
    const Plan& plan = *transfer->plan;
    if (transfer->priority < priority || !transfer->fixed_nests.empty()) continue;
    for (const Lane& lane : plan.lanes) {
      const double share =
          plan.bytes_per_second > 0 ? lane.bytes_per_second / plan.bytes_per_second : 1;
      for (int hop = lane.first_hop; hop < lane.first_hop + lane.hop_count; ++hop) {
        const Descriptor& descriptor = transfer->descriptors[at(hop)];
        const double left =
            share * static_cast<double>(plan.tiles) - static_cast<double>(descriptor.ended);
        seconds[at(descriptor.channel)] += std::max(left, 0.0) * plan.hops[at(hop)].tile_s;
      }
    }
  }
  return seconds;
}

/// Returns the first descriptor, by priority and age, that a thread may serve; null if there is
/// none.
const Scheduler::Ready* Scheduler::first_for(const std::vector<Ready>& ready, int thread) {
  const auto descriptor_of = [](const Ready& one) -> const Descriptor& {
    return one.transfer->descriptors[at(one.hop)];
  };
  const auto serves = [&](const Ready& one) {
    const int most = descriptor_of(one).in_flight_max;
    return most == 0 || thread < most;
  };
  if (serves(ready.front())) return &ready.front();
  const Ready* first = nullptr;
  for (const Ready& one : ready) {
    if (!serves(one) || !may_issue(*one.transfer, descriptor_of(one))) continue;
    if (first == nullptr || goes_after(*first, one)) first = &one;
  }
  return first;
}

std::optional<Job> Scheduler::next(int channel, int thread) {
  ChannelState& state = channels_[at(channel)];
  if (state.jobs_in_flight >= state.limits.jobs_in_flight_max) return std::nullopt;
  const auto take_out = [&] {
    state.ready.front().transfer->descriptors[at(state.ready.front().hop)].ready = false;
    std::pop_heap(state.ready.begin(), state.ready.end(), goes_after);
    state.ready.pop_back();
  };
  while (!state.ready.empty()) {
    const Ready& front = state.ready.front();
    if (!may_issue(*front.transfer, front.transfer->descriptors[at(front.hop)])) {
      take_out();
      continue;
    }
    const Ready* first = first_for(state.ready, thread);
    if (first == nullptr) return std::nullopt;
    const Transfer& transfer = *first->transfer;
    const Descriptor& descriptor = transfer.descriptors[at(first->hop)];
    const std::int64_t tile = tile_to_issue(transfer, descriptor);
    const std::int64_t bytes = job_bytes(transfer, tile);
    const bool full = state.limits.bytes_in_flight_max > 0 &&
                      state.jobs_in_flight >= state.limits.jobs_in_flight_min &&
                      state.bytes_in_flight + bytes > state.limits.bytes_in_flight_max;
    // Priority is strict: a smaller job does not overtake the first one because that is too large.
    if (full) return std::nullopt;
    Job job = issue(first->transfer, first->hop, tile);
    job.bytes = bytes;
    ++state.jobs_in_flight;
    state.bytes_in_flight += bytes;
    if (first == &front && !may_issue(transfer, descriptor)) take_out();
    return job;
  }
  return std::nullopt;
}

void Scheduler::complete(const Job& job, Status status, Changes& changes) {
  const std::shared_ptr<Transfer>& transfer = job.transfer;
  Descriptor& descriptor = transfer->descriptors[at(job.hop)];
  ChannelState& state = channels_[at(descriptor.channel)];
  --descriptor.in_flight;
  ++descriptor.ended;
  --state.jobs_in_flight;
  state.bytes_in_flight -= job.bytes;
  changes.channels.push_back(descriptor.channel);
  if (!status && transfer->state == TransferState::running) {
    cancel(
        transfer,
        {status.error().code, transfer->label + ": " + status.error().message, status.error().hint},
        changes);
    return;
  }
  if (transfer->state == TransferState::draining) {
    drain(transfer, changes);
    return;
  }
  if (descriptor.output < 0) {
    std::atomic_ref(transfer->bytes_ended).fetch_add(job.bytes, std::memory_order_relaxed);
  }
  if (descriptor.in_flight_max > 0) make_ready(transfer, job.hop, changes);
  if (descriptor.input >= 0) {
    transfer->slot(descriptor.input, job.sequence).freed = job.sequence + transfer->plan->slots;
    make_ready(transfer, job.hop - 1, changes);
  }
  if (descriptor.output >= 0) {
    Slot& slot = transfer->slot(descriptor.output, job.sequence);
    slot.filled = job.sequence;
    slot.tile = job.tile;
    make_ready(transfer, job.hop + 1, changes);
  } else if (++transfer->tiles_ended == transfer->plan->tiles) {
    finish(transfer, changes);
  } else if (const auto& lanes = transfer->plan->lanes; lanes.size() > 1) {
    for (const Lane& lane : lanes) make_ready(transfer, lane.first_hop, changes);
  }
}

void Scheduler::cancel(const std::shared_ptr<Transfer>& transfer, Error error, Changes& changes) {
  if (transfer->state == TransferState::ended || transfer->state == TransferState::draining) return;
  transfer->failure = std::move(error);
  if (transfer->state == TransferState::waiting) {
    finish(transfer, changes);
    return;
  }
  transfer->state = TransferState::draining;
  drain(transfer, changes);
}

void Scheduler::drain(const std::shared_ptr<Transfer>& transfer, Changes& changes) {
  for (const Descriptor& descriptor : transfer->descriptors) {
    if (descriptor.in_flight > 0) return;
  }
  finish(transfer, changes);
}

void Scheduler::finish(const std::shared_ptr<Transfer>& transfer, Changes& changes) {
  // The caller's reference may lie in a list that is about to change.
  changes.ended.push_back(transfer);
  Transfer* const kept = changes.ended.back().get();
  const bool lined_up = kept->state == TransferState::waiting && kept->blockers == 0;
  kept->state = TransferState::ended;
  transfers_[kept->place] = std::move(transfers_.back());
  transfers_[kept->place]->place = kept->place;
  transfers_.pop_back();
  if (lined_up) waiting_.leave(*kept, granted_);
  waiting_.give_back(*kept, granted_);
  start_granted(changes);
}

}  // namespace tranship
