#include "plan/cost.hpp"

#include <algorithm>

#include "plan/tile.hpp"

namespace tranship {
namespace {

constexpr int slots_most = 8;
/// The largest tile of a copy in one hop of memory: an urgent copy waits for one of them.
constexpr std::int64_t memory_tile_max = std::int64_t{1} << 20;
/// Where a memory sets no threshold of its own.
constexpr std::int64_t threshold_default = std::int64_t{16} << 20;
/// A smaller tile is preferred while it costs at most this much more predicted time.
constexpr double tile_tolerance = 1.01;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

std::int64_t asked_bytes(const Task& task) { return static_cast<std::int64_t>(task.bytes); }

}  // namespace

Task::Task(const PlanQuery& asked, bool fields_match)
    : query(asked),
      source(Order::of(*asked.source.mapping)),
      target(Order::of(*asked.target.mapping)),
      extents(asked.source.extents),
      rank(asked.source.mapping->rank()),
      bytes(static_cast<double>(asked.source.bytes())),
      same_fields(fields_match) {
  const auto whole = static_cast<std::int64_t>(bytes);
  common = std::min(common_bytes(source, target, extents, same_fields), whole);
  converts = common < whole;
  int long_dimensions = 0;
  for (int k = 0; k < rank; ++k) long_dimensions += extents[at(k)] > 1 ? 1 : 0;
  trades_runs = converts && long_dimensions > 1;
}

Costs::Costs(const Graph& graph, const Task& task)
    : graph_(graph),
      profile_(graph.profile()),
      task_(task),
      used_s_(profile_.resources.size(), 0) {
  const std::int64_t largest =
      std::min(std::max(graph.tile_bytes_most(), threshold_default), asked_bytes(task));
  while (sizes_ > 1 && tile_size(sizes_ - 2) >= largest) --sizes_;
  for (int k = 0; k < tile_sizes; ++k) {
    const double tiles = task.bytes / static_cast<double>(tile_size(k));
    tiles_[at(k)] = std::max(tiles, 1.0);
    share_[at(k)] = std::min(tiles, 1.0);
  }
}

double Costs::at_least(const BySize& sum_s, const BySize& beat_s) const {
  double least = INFINITY;
  for (std::size_t k = 0; k < at(sizes_); ++k) {
    least = std::min(least, share_[k] * sum_s[k] + (tiles_[k] - 1) * beat_s[k]);
  }
  return least;
}

double Costs::ends_s(int first, int last, int size) {
  const ChannelSpec& from = profile_.channels[at(first)];
  const ChannelSpec& to = profile_.channels[at(last)];
  if (from.gathers || to.gathers) return 0;
  const int of_first = graph_.function(first);
  const int of_last = graph_.function(last);
  auto known = std::find_if(ends_.begin(), ends_.end(), [&](const Ends& ends) {
    return ends.first == of_first && ends.last == of_last;
  });
  if (known == ends_.end()) {
    ends_.push_back({of_first, of_last, {}});
    ends_.back().times_s.fill(-1);
    known = ends_.end() - 1;
  }
  double& time_s = known->times_s[at(size)];
  if (time_s < 0) {
    const double rate =
        best_rate({&task_.source, &from.throughput}, {&task_.target, &to.throughput},
                  task_.extents, tile_size(size));
    time_s = static_cast<double>(tile_size(size)) / rate;
  }
  return time_s;
}

const BySize& Costs::converting_s(int number) {
  const ChannelSpec& channel = profile_.channels[at(number)];
  const bool reads = channel.kind == ChannelKind::file_read;
  const int loop =
      channel.gathers ? graph_.self_loop(reads ? channel.target : channel.source) : -1;
  for (const Converting& known : converting_) {
    if (known.function == graph_.function(number) && known.loop == loop) return known.times_s;
  }
  BySize times{};
  for (int k = 0; k < tile_sizes; ++k) {
    const std::int64_t bytes = tile_size(k);
    const std::int64_t run = std::min(task_.common, bytes);
    const auto time_s = [&](const ChannelSpec& carrier) {
      return static_cast<double>(bytes) / carrier.throughput.at(bytes, run);
    };
    if (!channel.gathers) {
      times[at(k)] = time_s(channel);
    } else {
      times[at(k)] = graph_.tile_s(number)[at(k)];
      if (loop >= 0) times[at(k)] += time_s(profile_.channels[at(loop)]);
    }
  }
  converting_.push_back({graph_.function(number), loop, times});
  return converting_.back().times_s;
}

HopCost Costs::hop(int number, const HopRole& role, const Point& tile) const {
  const ChannelSpec& channel = profile_.channels[at(number)];
  const std::int64_t tile_bytes = points_of(tile, task_.rank) * task_.source.point_bytes;
  const auto bytes = static_cast<double>(tile_bytes);
  const std::int64_t at_source = role.first ? task_.source.run_bytes(tile) : tile_bytes;
  const std::int64_t at_target = role.last ? task_.target.run_bytes(tile) : tile_bytes;
  const std::int64_t common =
      role.converts ? common_bytes(task_.source, task_.target, tile, task_.same_fields) : tile_bytes;
  HopCost cost;
  if (!channel.gathers) {
    cost.run_bytes = std::min({at_source, at_target, common, tile_bytes});
    cost.tile_s = bytes / channel.throughput.at(tile_bytes, cost.run_bytes);
    return cost;
  }
  // It copies in memory as well, between one access of the device and the next.
  const bool reads = channel.kind == ChannelKind::file_read;
  cost.run_bytes = std::min(reads ? at_source : at_target, tile_bytes);
  cost.tile_s = bytes / channel.throughput.at(tile_bytes, cost.run_bytes);
  const int loop = graph_.self_loop(reads ? channel.target : channel.source);
  if (role.converts && loop >= 0) {
    cost.tile_s += bytes / profile_.channels[at(loop)].throughput.at(tile_bytes, common);
  }
  return cost;
}

HopCost Costs::hop(const Candidate& candidate, int number) const {
  const HopRole role{number == 0, number + 1 == candidate.path.count,
                     number == candidate.converting_hop};
  return hop(candidate.path.channels[at(number)], role, candidate.tile);
}

std::int64_t Costs::ring_bytes_max(const Path& path, int rings) const {
  std::int64_t least = INT64_MAX;
  for (int hop = 0; hop + 1 < path.count; ++hop) {
    const int memory = profile_.channels[at(path.channels[at(hop)])].target;
    least = std::min(least, profile_.memories[at(memory)].buffer_bytes_max);
  }
  if (least == INT64_MAX) return least;
  if (task_.query.buffer_bytes_max > 0) least = std::min(least, task_.query.buffer_bytes_max);
  return least / rings;
}

std::int64_t Costs::tile_bytes_max(const Path& path) const {
  const ChannelSpec& first = profile_.channels[at(path.channels[0])];
  if (path.count == 1) return converts_well(first) ? memory_tile_max : threshold_default;
  std::int64_t most = ring_bytes_max(path, path.count - 1) / 2;
  for (int hop = 0; hop + 1 < path.count; ++hop) {
    const int memory = profile_.channels[at(path.channels[at(hop)])].target;
    const std::int64_t threshold = profile_.memories[at(memory)].threshold_bytes;
    most = std::min(most, threshold > 0 ? threshold : threshold_default);
  }
  return most < task_.source.point_bytes ? 0 : most;
}

int Costs::count_slots(const Candidate& candidate) const {
  if (candidate.path.count == 1) return 0;
  const std::int64_t slot = std::max({task_.source.slot_bytes(candidate.tile),
                                      task_.target.slot_bytes(candidate.tile), std::int64_t{1}});
  const std::int64_t tiles = tile_count(task_.extents, candidate.tile, task_.rank);
  const std::int64_t ring = ring_bytes_max(candidate.path, candidate.path.count - 1);
  return static_cast<int>(
      std::min({std::int64_t{slots_most}, ring / slot, std::max<std::int64_t>(tiles, 2)}));
}

Candidate Costs::tiled(const Path& path, int converting_hop, std::int64_t bytes_max, bool even) {
  const ChannelSpec& first = profile_.channels[at(path.channels[0])];
  const ChannelSpec& last = profile_.channels[at(path.channels[at(path.count - 1)])];
  // Runs in memory cost a gathering channel nothing; a channel that converts sees the common runs,
  // whatever the tile.
  const bool first_sees = first.gathers ? first.kind == ChannelKind::file_read
                                        : converting_hop != 0 || path.count == 1;
  const bool last_sees = last.gathers ? last.kind == ChannelKind::file_write
                                      : converting_hop != path.count - 1 || path.count == 1;
  const TileEnd source{&task_.source, first_sees && !even ? &first.throughput : nullptr};
  const TileEnd target{&task_.target, last_sees && !even ? &last.throughput : nullptr};
  Candidate candidate;
  candidate.path = path;
  candidate.converting_hop = converting_hop;
  candidate.tile = choose_tile(source, target, task_.extents, bytes_max);
  candidate.tile_bytes = points_of(candidate.tile, task_.rank) * task_.source.point_bytes;
  candidate.slots = count_slots(candidate);
  if (path.count == 1 || candidate.slots > 0) predict(candidate);
  return candidate;
}

void Costs::predict(Candidate& candidate) {
  const auto bytes = static_cast<double>(candidate.tile_bytes);
  double fill_s = 0;
  double beat_s = 0;
  double wait_s = 0;
  for (int k = 0; k < candidate.path.count; ++k) {
    const int number = candidate.path.channels[at(k)];
    const ChannelSpec& channel = profile_.channels[at(number)];
    const double tile_s = hop(candidate, k).tile_s;
    if (at(number) < task_.query.waiting_s.size()) {
      wait_s = std::max(wait_s, task_.query.waiting_s[at(number)] - fill_s);
    }
    fill_s += channel.latency_s + tile_s;
    if (tile_s > beat_s) {
      beat_s = tile_s;
      candidate.binding_channel = number;
    }
    for (const int r : channel.resources) {
      const double capacity = profile_.resources[at(r)].bytes_per_second;
      used_s_[at(r)] += capacity > 0 ? bytes / capacity : tile_s;
    }
  }
  for (int k = 0; k < candidate.path.count; ++k) {
    for (const int r : profile_.channels[at(candidate.path.channels[at(k)])].resources) {
      if (used_s_[at(r)] > beat_s * (1 + 1e-9)) {
        beat_s = used_s_[at(r)];
        candidate.binding_resource = r;
        candidate.binding_channel = -1;
      }
      used_s_[at(r)] = 0;
    }
  }
  // With one slot a ring, no hop can work while its neighbour does.
  if (candidate.slots == 1) beat_s = fill_s;
  const double tiles = task_.bytes / std::max(bytes, 1.0);
  candidate.seconds = wait_s + fill_s + std::max(tiles - 1, 0.0) * beat_s;
  candidate.bytes_per_second = beat_s > 0 ? bytes / beat_s : 0;
}

void Costs::sums(const Path& path, int converting_hop, BySize& sum_s, BySize& beat_s) {
  sum_s.fill(0);
  beat_s.fill(0);
  for (int hop = 0; hop < path.count; ++hop) {
    const int channel = path.channels[at(hop)];
    const BySize& times = hop == converting_hop ? converting_s(channel) : graph_.tile_s(channel);
    const double latency_s = profile_.channels[at(channel)].latency_s;
    for (std::size_t k = 0; k < tile_sizes; ++k) {
      sum_s[k] += times[k] + latency_s;
      beat_s[k] = std::max(beat_s[k], times[k]);
    }
  }
}

std::optional<Candidate> Costs::best_tiling(const Path& path, int converting_hop,
                                            double seconds_max) {
  const std::int64_t most = tile_bytes_max(path);
  if (most == 0) return std::nullopt;
  BySize sum_s;
  BySize beat_s;
  sums(path, converting_hop, sum_s, beat_s);
  const bool both_ends = task_.trades_runs && converting_hop > 0 && converting_hop + 1 < path.count;
  int largest = 0;
  while (largest + 1 < sizes_ && tile_size(largest) < most) ++largest;
  std::optional<Candidate> best;
  double fastest = INFINITY;
  double to_beat = seconds_max;
  for (int k = largest; k >= 0; --k) {
    double slowest_s = beat_s[at(k)];
    if (at_least(k, sum_s[at(k)], slowest_s) >= to_beat) continue;
    if (both_ends) {
      const double ends = ends_s(path.channels[0], path.channels[at(path.count - 1)], k);
      slowest_s = std::max(slowest_s, ends);
      if (at_least(k, sum_s[at(k)], slowest_s) >= to_beat) continue;
    }
    const Candidate candidate =
        tiled(path, converting_hop, std::min(tile_size(k), most), false);
    const bool fits = path.count == 1 || candidate.slots > 0;
    // A smaller tile need not be faster, only not slower by more than the tolerance.
    if (!fits || candidate.seconds >= to_beat) continue;
    best = candidate;
    fastest = std::min(fastest, candidate.seconds);
    to_beat = std::min(seconds_max, fastest * tile_tolerance);
  }
  return best;
}

std::optional<Candidate> Costs::quick_tiling(const Path& path, int converting_hop) {
  const std::int64_t most = tile_bytes_max(path);
  if (most == 0) return std::nullopt;
  BySize sum_s;
  BySize beat_s;
  sums(path, converting_hop, sum_s, beat_s);
  int best = 0;
  int largest = 0;  // that still makes a pipeline
  double best_s = INFINITY;
  for (int k = 0; k < tile_sizes && (k == 0 || tile_size(k - 1) < most); ++k) {
    const double seconds = share_[at(k)] * sum_s[at(k)] + (tiles_[at(k)] - 1) * beat_s[at(k)];
    if (static_cast<double>(tile_size(k) * slots_most) <= task_.bytes) largest = k;
    if (seconds * tile_tolerance >= best_s) continue;
    best_s = seconds;
    best = k;
  }
  // Where runs at one end are traded for runs at the other, only a large tile has long ones.
  if (task_.trades_runs && path.count > 1) best = std::max(best, largest);
  const Candidate candidate =
      tiled(path, converting_hop, std::min(tile_size(best), most), true);
  if (path.count > 1 && candidate.slots == 0) return best_tiling(path, converting_hop, INFINITY);
  return candidate;
}

}  // namespace tranship
