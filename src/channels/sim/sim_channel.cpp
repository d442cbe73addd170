#include "channels/sim/sim_channel.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace tranship {
namespace {

/// Returns the longest contiguous run that all nests of the request have.
std::int64_t run_of(const Request& request) {
  std::int64_t elements = 0;
  for (const LoopNest& nest : request.payload.nests())
    elements += nest.bytes() / nest.element_bytes;
  return elements > 0 ? request.bytes / elements : 1;
}

std::int64_t nanoseconds(double seconds) { return static_cast<std::int64_t>(seconds * 1e9); }

}  // namespace

SimWorld::SimWorld(const std::vector<Resource>& resources) {
  for (const Resource& resource : resources) add_resource(resource.bytes_per_second);
}

int SimWorld::add_resource(double bytes_per_second) {
  resources_.push_back({bytes_per_second, 0});
  return static_cast<int>(resources_.size()) - 1;
}

/// The load starts now, also for a request that waits behind others of its channel: otherwise a
/// slow channel's queue would block the resource between its requests for all other channels.
std::int64_t SimWorld::occupy(const std::vector<int>& resources, const Load& load) {
  const auto now_ns = static_cast<double>(clock_.now_ns());
  double end_ns = now_ns;
  for (const int number : resources) {
    Occupancy& resource = resources_[static_cast<std::size_t>(number)];
    const double seconds = resource.bytes_per_second > 0
                               ? static_cast<double>(load.bytes) / resource.bytes_per_second
                               : load.seconds;
    resource.busy_until_ns = std::max(resource.busy_until_ns, now_ns) + seconds * 1e9;
    end_ns = std::max(end_ns, resource.busy_until_ns);
  }
  return static_cast<std::int64_t>(end_ns);
}

std::optional<int> SimWorld::advance() {
  const std::optional<TimeQueue::DueTime> next = queue_.pop();
  if (!next) return std::nullopt;
  clock_.set_ns(next->time_ns);
  return next->source;
}

SimChannel::SimChannel(SimWorld& world, Options options)
    : world_(world),
      spec_(options.shared_spec),
      resources_(std::move(options.resources)),
      failure_probability_(options.failure_probability),
      jitter_(options.jitter),
      random_(options.seed),
      number_(world.add_source()) {
  if (!spec_) {
    resources_ = options.spec.resources;
    spec_ = std::make_shared<const ChannelSpec>(std::move(options.spec));
  }
  capabilities_.synchronous = false;
  capabilities_.bytes_in_flight_max = options.bytes_in_flight_max;
}

double SimChannel::service_s(const Request& request) {
  const std::int64_t run = request.run_bytes > 0 ? request.run_bytes : run_of(request);
  if (request.bytes == last_bytes_ && run == last_run_bytes_) return last_s_;
  // A file channel that converts also copies in memory between its requests. Its throughput
  // function does not include that time; the plan does.
  const bool file = traits_of(spec_->kind).file;
  const double rate = file && request.converts_bytes_per_second > 0
                          ? request.converts_bytes_per_second
                          : spec_->throughput.at(request.bytes, run);
  last_bytes_ = request.bytes;
  last_run_bytes_ = run;
  last_s_ = static_cast<double>(request.bytes) / rate;
  return last_s_;
}

Status SimChannel::submit(const Request& request) {
  double seconds = service_s(request);
  if (jitter_ > 0) seconds *= 1 + jitter_ * static_cast<double>(random_.below(1000)) / 1000;
  const std::int64_t now_ns = world_.clock().now_ns();
  const std::int64_t served_ns = std::max(now_ns, busy_until_ns_) + nanoseconds(seconds);
  busy_until_ns_ = std::max(served_ns, world_.occupy(resources_, {request.bytes, seconds}));
  // At least a nanosecond: no event would be pending for a request without duration.
  const std::int64_t end_ns = std::max(busy_until_ns_, now_ns + 1) + nanoseconds(spec_->latency_s);
  const bool fails = failure_probability_ > 0 && random_.chance(failure_probability_);
  const bool loaded = fails || !request.payload.nests().empty();
  if (loaded)
    cargo_.push({request.payload.nests(), request.source.address, request.target.address, fails});
  line_up({end_ns, request.tag, loaded});
  return {};
}

void SimChannel::line_up(const Pending& one) {
  if (pending_count_ < first_.size()) {
    first_[pending_count_] = one;
  } else {
    behind_.push(one);
  }
  if (pending_count_++ == 0) world_.expect(one.end_ns, number_);
}

/// Removes the first request of the queue, which has ended.
void SimChannel::step_up() {
  --pending_count_;
  first_[0] = first_[1];
  if (behind_.empty()) return;
  first_[1] = behind_.front();
  behind_.pop();
}

std::size_t SimChannel::poll(std::span<Finished> finished) {
  std::size_t count = 0;
  while (count < finished.size() && pending_count_ > 0) {
    const Pending one = first_[0];
    if (one.end_ns > world_.clock().now_ns()) break;
    Status status;
    if (one.loaded) {
      const Cargo& cargo = cargo_.front();
      if (cargo.fails) {
        status = Error{ErrorCode::io, "channel " + name() + " was made to fail"};
      } else {
        move_bytes(cargo.nests, cargo.source, cargo.target);
      }
      cargo_.pop();
    }
    finished[count++] = {one.tag, std::move(status)};
    step_up();
  }
  if (count > 0 && pending_count_ > 0) {
    world_.expect(std::max(first_[0].end_ns, world_.clock().now_ns()), number_);
  }
  return count;
}

void SimChannel::idle(std::chrono::nanoseconds at_most) {
  (void)at_most;
  (void)world_.advance();
}

void move_bytes(std::span<const LoopNest> nests, const std::byte* source, std::byte* target) {
  for (const LoopNest& nest : nests) {
    std::array<std::int64_t, LoopNest::loops_max> turn{};
    std::int64_t from = nest.source_offset;
    std::int64_t to = nest.target_offset;
    if (nest.bytes() == 0) continue;
    while (true) {
      std::memcpy(target + to, source + from, static_cast<std::size_t>(nest.element_bytes));
      std::size_t k = 0;
      for (; k < static_cast<std::size_t>(nest.rank); ++k) {
        const Loop& loop = nest.loops[k];
        from += loop.source_stride;
        to += loop.target_stride;
        if (++turn[k] < loop.extent) break;
        from -= loop.source_stride * loop.extent;
        to -= loop.target_stride * loop.extent;
        turn[k] = 0;
      }
      if (k == static_cast<std::size_t>(nest.rank)) break;
    }
  }
}

}  // namespace tranship
