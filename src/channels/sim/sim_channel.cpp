#include "channels/sim/sim_channel.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace tranship {
namespace {

/// Longest contiguous piece that the request's nests have in common.
std::int64_t run_of(const Request& request) {
  std::int64_t elements = 0;
  for (const LoopNest& nest : request.nests) elements += nest.bytes() / nest.element_bytes;
  return elements > 0 ? request.bytes / elements : 1;
}

std::int64_t nanoseconds(double seconds) { return static_cast<std::int64_t>(seconds * 1e9); }

}  // namespace

std::int64_t SimWorld::occupy(const std::vector<int>& resources, std::int64_t bytes,
                              std::int64_t start_ns) {
  std::int64_t end_ns = start_ns;
  for (const int number : resources) {
    const auto r = static_cast<std::size_t>(number);
    if (resources_[r].bytes_per_second <= 0) continue;  // taking turns is not simulated yet
    const double seconds = static_cast<double>(bytes) / resources_[r].bytes_per_second;
    busy_until_ns_[r] = std::max(busy_until_ns_[r], start_ns) + nanoseconds(seconds);
    end_ns = std::max(end_ns, busy_until_ns_[r]);
  }
  return end_ns;
}

bool SimWorld::advance() {
  while (!times_.empty() && times_.top() <= clock_.now_ns()) times_.pop();
  if (times_.empty()) return false;
  clock_.set_ns(times_.top());
  return true;
}

SimChannel::SimChannel(SimWorld& world, Options options)
    : world_(world), options_(std::move(options)), random_(options_.seed) {
  capabilities_.synchronous = false;
  capabilities_.bytes_in_flight_max = options_.bytes_in_flight_max;
}

Status SimChannel::submit(const Request& request) {
  const double rate = options_.spec.throughput.at(request.bytes, run_of(request));
  double seconds = static_cast<double>(request.bytes) / rate;
  if (options_.jitter > 0) {
    seconds *= 1 + options_.jitter * static_cast<double>(random_.below(1000)) / 1000;
  }
  const std::int64_t start_ns = std::max(world_.clock().now_ns(), busy_until_ns_);
  busy_until_ns_ = std::max(start_ns + nanoseconds(seconds),
                            world_.occupy(options_.spec.resources, request.bytes, start_ns));
  // At least a nanosecond: what ends in the instant in which it begins would never be waited for.
  const std::int64_t end_ns =
      std::max(busy_until_ns_, world_.clock().now_ns() + 1) + nanoseconds(options_.spec.latency_s);
  pending_.push_back({end_ns, request, random_.chance(options_.failure_probability)});
  world_.expect(end_ns);
  return {};
}

std::size_t SimChannel::poll(std::span<Finished> finished) {
  std::size_t count = 0;
  for (std::size_t k = 0; k < pending_.size() && count < finished.size();) {
    Pending& one = pending_[k];
    if (one.end_ns > world_.clock().now_ns()) {
      ++k;
      continue;
    }
    Status status;
    if (one.fails) {
      status = Error{ErrorCode::io, "channel " + name() + " was made to fail"};
    } else {
      move_bytes(one.request.nests, one.request.source.address, one.request.target.address);
    }
    finished[count++] = {one.request.tag, std::move(status)};
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(k));
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
