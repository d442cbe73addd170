#include "runtime/scheduler.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace tranship {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }
std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

bool goes_before(const Transfer& a, const Transfer& b) {
  return a.priority != b.priority ? a.priority > b.priority : a.age < b.age;
}

/// Whether two transfers want buffers in a common memory.
bool compete(const Transfer& a, const Transfer& b) {
  return std::any_of(a.buffer_requests.begin(), a.buffer_requests.end(), [&](const auto& mine) {
    return std::any_of(b.buffer_requests.begin(), b.buffer_requests.end(),
                       [&](const auto& other) { return other.memory == mine.memory; });
  });
}

void remove(std::vector<std::shared_ptr<Transfer>>& list,
            const std::shared_ptr<Transfer>& transfer) {
  list.erase(std::remove(list.begin(), list.end(), transfer), list.end());
}

}  // namespace

Scheduler::Scheduler(std::vector<ChannelLimits> channels, BufferPool& buffers) : buffers_(buffers) {
  for (const ChannelLimits& limits : channels) add_channel(limits);
}

int Scheduler::add_channel(ChannelLimits limits) {
  channels_.push_back({limits, {}, 0, 0});
  return static_cast<int>(channels_.size()) - 1;
}

void Scheduler::admit(std::shared_ptr<Transfer> transfer, Changes& changes) {
  transfer->age = arrivals_++;
  const Plan& plan = *transfer->plan;
  CHECK(transfer->descriptors.size() == plan.hops.size(), "a descriptor for each hop");
  CHECK(plan.tiles > 0, "an empty transfer has nothing to schedule");
  for (std::size_t k = 0; k + 1 < plan.hops.size(); ++k) {
    Ring ring;
    ring.slots = plan.slots;
    // Slots start at cache lines, so that no two threads write one line.
    ring.slot_bytes =
        (std::max<std::int64_t>(plan.hops[k].target->end_bytes(), 1) + 4095) / 4096 * 4096;
    ring.filled.assign(at(ring.slots), -1);
    ring.freed.resize(at(ring.slots));
    for (int slot = 0; slot < ring.slots; ++slot) ring.freed[at(slot)] = slot;
    transfer->buffer_requests.push_back({plan.hops[k].target_memory, ring.slot_bytes * ring.slots});
    transfer->rings.push_back(std::move(ring));
  }
  transfers_.push_back(transfer);
  if (!buffers_.possible(transfer->buffer_requests)) {
    cancel(transfer,
           {ErrorCode::out_of_memory, "the intermediate buffers of " + transfer->label +
                                          " do not fit the memory's budget; allow more memory"},
           changes);
    return;
  }
  waiting_.insert(
      std::upper_bound(waiting_.begin(), waiting_.end(), transfer,
                       [](const auto& a, const auto& b) { return goes_before(*a, *b); }),
      transfer);
  start_waiting(changes);
}

void Scheduler::unblock(const std::shared_ptr<Transfer>& transfer, const Status& status,
                        Changes& changes) {
  --transfer->blockers;
  if (transfer->state != TransferState::waiting) return;
  if (!status) {
    cancel(transfer,
           {status.error().code, "a transfer that " + transfer->label +
                                     " was to follow failed: " + status.error().message},
           changes);
    return;
  }
  start_waiting(changes);
}

void Scheduler::start_waiting(Changes& changes) {
  for (std::size_t k = 0; k < waiting_.size();) {
    const std::shared_ptr<Transfer> transfer = waiting_[k];
    const bool overtakes = std::any_of(
        waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(k),
        [&](const auto& before) { return before->blockers == 0 && compete(*before, *transfer); });
    if (transfer->blockers > 0 || overtakes || !start(transfer, changes)) {
      ++k;
    } else {
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }
}

bool Scheduler::start(const std::shared_ptr<Transfer>& transfer, Changes& changes) {
  if (!buffers_.acquire(transfer->buffer_requests, acquired_)) return false;
  for (std::size_t k = 0; k < transfer->rings.size(); ++k) {
    transfer->rings[k].buffer = acquired_[k];
  }
  transfer->state = TransferState::running;
  for (std::size_t hop = 0; hop < transfer->descriptors.size(); ++hop) {
    const int channel = transfer->descriptors[hop].channel;
    auto& list = channels_[at(channel)].descriptors;
    const auto place =
        std::upper_bound(list.begin(), list.end(), transfer,
                         [](const auto& a, const auto& b) { return goes_before(*a, *b.first); });
    list.insert(place, {transfer, static_cast<int>(hop)});
    changes.channels.push_back(channel);
  }
  return true;
}

bool Scheduler::may_issue(const Transfer& transfer, int hop) {
  const Descriptor& descriptor = transfer.descriptors[at(hop)];
  const std::int64_t tile = descriptor.next_tile;
  if (transfer.state != TransferState::running || tile >= transfer.plan->tiles) return false;
  if (hop > 0) {
    const Ring& input = transfer.rings[at(hop - 1)];
    if (input.filled[at(tile % input.slots)] != tile) return false;
  }
  if (at(hop) < transfer.rings.size()) {
    const Ring& output = transfer.rings[at(hop)];
    if (output.freed[at(tile % output.slots)] != tile) return false;
  }
  return true;
}

std::int64_t Scheduler::job_bytes(const Transfer& transfer, std::int64_t tile) {
  const Plan& plan = *transfer.plan;
  if (!transfer.fixed_nests.empty()) return plan.bytes;
  const Mapping& mapping = *plan.hops[0].source;
  const TileBox box = tile_at(plan.extents, plan.tile, mapping.rank(), tile);
  std::int64_t bytes = mapping.point_bytes();
  for (int k = 0; k < mapping.rank(); ++k) bytes *= box.extents[at(k)];
  return bytes;
}

std::optional<Job> Scheduler::next(int channel) {
  ChannelState& state = channels_[at(channel)];
  if (state.jobs_in_flight >= state.limits.jobs_in_flight_max) return std::nullopt;
  for (const auto& [transfer, hop] : state.descriptors) {
    if (!may_issue(*transfer, hop)) continue;
    Descriptor& descriptor = transfer->descriptors[at(hop)];
    const std::int64_t bytes = job_bytes(*transfer, descriptor.next_tile);
    const bool full = state.limits.bytes_in_flight_max > 0 && state.bytes_in_flight > 0 &&
                      state.bytes_in_flight + bytes > state.limits.bytes_in_flight_max;
    // Strict priority: what is first in line is not overtaken because it is large.
    if (full) return std::nullopt;
    Job job{transfer, hop, descriptor.next_tile++, bytes};
    ++descriptor.in_flight;
    ++state.jobs_in_flight;
    state.bytes_in_flight += bytes;
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
    cancel(transfer, {status.error().code, transfer->label + ": " + status.error().message},
           changes);
    return;
  }
  if (transfer->state == TransferState::draining) {
    drain(transfer, changes);
    return;
  }
  if (job.hop > 0) {
    Ring& input = transfer->rings[at(job.hop - 1)];
    input.freed[at(job.tile % input.slots)] = job.tile + input.slots;
    changes.channels.push_back(transfer->descriptors[at(job.hop - 1)].channel);
  }
  if (at(job.hop) < transfer->rings.size()) {
    Ring& output = transfer->rings[at(job.hop)];
    output.filled[at(job.tile % output.slots)] = job.tile;
    changes.channels.push_back(transfer->descriptors[at(job.hop + 1)].channel);
  } else if (descriptor.ended == transfer->plan->tiles) {
    finish(transfer, changes);
  }
}

void Scheduler::cancel(const std::shared_ptr<Transfer>& transfer, Error error, Changes& changes) {
  if (transfer->state == TransferState::ended || transfer->state == TransferState::draining) return;
  transfer->failure = std::move(error);
  if (transfer->state == TransferState::waiting) {
    remove(waiting_, transfer);
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
  const std::shared_ptr<Transfer> kept = transfer;  // the caller's reference may lie in a list
  if (kept->state != TransferState::waiting) {
    for (std::size_t k = 0; k < kept->rings.size(); ++k) {
      buffers_.release(kept->buffer_requests[k], kept->rings[k].buffer);
    }
    for (const Descriptor& descriptor : kept->descriptors) {
      auto& list = channels_[at(descriptor.channel)].descriptors;
      list.erase(std::remove_if(list.begin(), list.end(),
                                [&](const auto& entry) { return entry.first == kept; }),
                 list.end());
    }
  }
  const bool held_buffers = !kept->buffer_requests.empty();
  kept->state = TransferState::ended;
  remove(transfers_, kept);
  changes.ended.push_back(kept);
  if (held_buffers) start_waiting(changes);
}

}  // namespace tranship
