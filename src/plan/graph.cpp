#include "plan/graph.hpp"

#include <algorithm>
#include <cmath>

#include "base/at.hpp"

namespace tranship {
namespace {

BySize times_of(const ChannelSpec& channel) {
  BySize times{};
  for (int k = 0; k < tile_sizes; ++k) {
    const std::int64_t bytes = tile_size(k);
    const double rate = channel.throughput.at(bytes, bytes);
    times[at(k)] = rate > 0 ? static_cast<double>(bytes) / rate : INFINITY;
  }
  return times;
}

}  // namespace

Graph::Graph(const Profile& profile)
    : profile_(profile),
      leaving_(profile.memories.size()),
      self_loop_(profile.memories.size(), -1),
      measured_(profile.memories.size()),
      remaining_(profile.memories.size()) {
  for (const Memory& memory : profile.memories) {
    tile_bytes_most_ = std::max(tile_bytes_most_, memory.threshold_bytes);
    if (memory.buffer_bytes_max <= 0) continue;
    buffer_bytes_least_ = std::min(buffer_bytes_least_, memory.buffer_bytes_max);
    if (memory.threshold_bytes > 0) {
      buffer_bytes_least_ = std::min(buffer_bytes_least_, memory.threshold_bytes);
    }
  }
  for (std::size_t c = 0; c < profile.channels.size(); ++c) {
    const ChannelSpec& channel = profile.channels[c];
    leaving_[at(channel.source)].push_back(static_cast<int>(c));
    tile_s_.push_back(times_of(channel));
    std::size_t like = 0;
    const auto& samples = channel.throughput.samples();
    while (like < c && !(profile.channels[like].throughput.samples() == samples)) ++like;
    functions_.push_back(static_cast<int>(like));
    if (channel.source != channel.target || !traits_of(channel.kind).converts_well) continue;
    int& loop = self_loop_[at(channel.source)];
    const bool wider =
        loop < 0 || channel.throughput.peak() > profile.channels[at(loop)].throughput.peak();
    if (wider) loop = static_cast<int>(c);
  }
  for (auto& channels : leaving_) {
    std::stable_sort(channels.begin(), channels.end(), [&](int a, int b) {
      return profile.channels[at(a)].throughput.peak() > profile.channels[at(b)].throughput.peak();
    });
  }
}

const Remaining& Graph::remaining(int target) const {
  std::call_once(measured_[at(target)], [&] { remaining_[at(target)] = measure(target); });
  return *remaining_[at(target)];
}

std::unique_ptr<Remaining> Graph::measure(int target) const {
  auto found = std::make_unique<Remaining>();
  auto& from = found->from;
  from.resize(profile_.memories.size());
  for (auto& one : from) {
    one.sum_s.fill(INFINITY);
    one.beat_s.fill(INFINITY);
  }
  from[at(target)].hops = 0;
  from[at(target)].width = INFINITY;
  from[at(target)].sum_s.fill(0);
  from[at(target)].beat_s.fill(0);
  // Relaxes until nothing changes; a path has fewer hops than there are memories.
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t c = 0; c < profile_.channels.size(); ++c) {
      const ChannelSpec& channel = profile_.channels[c];
      const auto& next = from[at(channel.target)];
      const bool stops =
          channel.target != target && profile_.memories[at(channel.target)].buffer_bytes_max <= 0;
      if (channel.source == channel.target || channel.source == target) continue;
      if (next.hops < 0 || stops) continue;
      auto& here = from[at(channel.source)];
      const double width = std::min(next.width, channel.throughput.peak());
      const bool shorter = here.hops < 0 || next.hops + 1 < here.hops;
      if (shorter || (next.hops + 1 == here.hops && width > here.width)) {
        here.hops = next.hops + 1;
        here.next_channel = static_cast<int>(c);
        here.width = width;
        changed = true;
      }
      for (std::size_t k = 0; k < tile_sizes; ++k) {
        const double sum_s = next.sum_s[k] + tile_s_[c][k] + channel.latency_s;
        const double beat_s = std::max(next.beat_s[k], tile_s_[c][k]);
        changed = changed || sum_s < here.sum_s[k] || beat_s < here.beat_s[k];
        here.sum_s[k] = std::min(here.sum_s[k], sum_s);
        here.beat_s[k] = std::min(here.beat_s[k], beat_s);
      }
    }
  }
  return found;
}

Path Graph::shortest(int source, int target) const {
  const Remaining& remaining = this->remaining(target);
  Path path;
  int memory = source;
  if (source == target) {
    if (self_loop_[at(source)] >= 0) {
      path.add(self_loop_[at(source)]);
      return path;
    }
    // The ends are one memory: the first channel is the one with the shortest, then widest, return
    // path.
    int best = -1;
    for (const int c : leaving(source)) {
      const ChannelSpec& channel = profile_.channels[at(c)];
      if (profile_.memories[at(channel.target)].buffer_bytes_max <= 0) continue;
      const auto& back = remaining.from[at(channel.target)];
      if (channel.target == source || back.hops < 0) continue;
      const auto& of_best =
          remaining.from[at(best < 0 ? channel.target : profile_.channels[at(best)].target)];
      if (best < 0 || back.hops < of_best.hops) best = c;
    }
    if (best < 0) return path;
    path.add(best);
    memory = profile_.channels[at(best)].target;
  }
  const int hops = remaining.from[at(memory)].hops;
  if (hops < 0 || path.count + hops > hops_max) return {};
  while (memory != target) {
    const int channel = remaining.from[at(memory)].next_channel;
    path.add(channel);
    memory = profile_.channels[at(channel)].target;
  }
  return path;
}

}  // namespace tranship
