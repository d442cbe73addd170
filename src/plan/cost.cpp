#include "plan/cost.hpp"

#include <algorithm>

#include "base/at.hpp"
#include "plan/tile.hpp"

namespace tranship {
namespace {

/// Extent of the longest dimension up to which few tile sizes are possible.
constexpr std::int64_t coarse_extent = 128;
/// Number of transfers whose buffers should fit at the same time.
constexpr std::int64_t transfers_abreast = 4;
/// Largest tile of a copy in one hop of memory, in bytes: an urgent copy waits for one of them.
constexpr std::int64_t memory_tile_max = std::int64_t{1} << 20;
/// Least number of such tiles for each of the channel's threads, so that all end at the same time.
constexpr std::int64_t memory_tiles_least = 8;
/// Threshold of memories that set none, in bytes.
constexpr std::int64_t threshold_default = std::int64_t{16} << 20;
/// Share of the time that one round of refining a tile must save for another round.
constexpr double refine_least = 0.995;
/// A smaller tile is preferred while its predicted time is longer by at most this share,
constexpr double tile_tolerance = 1.01;
/// down to this size in bytes. A still smaller tile must save that share, since each tile costs
/// work of the scheduler.
constexpr std::int64_t tile_preferred_least = std::int64_t{64} << 10;

std::int64_t asked_bytes(const Task& task) { return static_cast<std::int64_t>(task.bytes); }

}  // namespace

Task::Task(const PlanQuery& asked, bool fields_match, bool casts_numbers)
    : query(asked),
      source(Order::of(*asked.source.mapping)),
      target(Order::of(*asked.target.mapping)),
      extents(asked.source.extents),
      rank(asked.source.mapping->rank()),
      bytes(static_cast<double>(asked.source.bytes())),
      same_fields(fields_match),
      casts(casts_numbers) {
  const auto whole = static_cast<std::int64_t>(bytes);
  common = std::min(common_bytes(source, target, extents, same_fields), whole);
  reorders = common < whole;
  converts = reorders || casts;
  has_gaps = source.run_bytes(extents) < whole || target.run_bytes(extents) < asked.target.bytes();
  int long_dimensions = 0;
  std::int64_t longest = 0;
  for (int k = 0; k < rank; ++k) {
    long_dimensions += extents[at(k)] > 1 ? 1 : 0;
    longest = std::max(longest, extents[at(k)]);
  }
  coarse = longest <= coarse_extent;
  trades_runs = reorders && long_dimensions > 1;
}

Costs::Costs(const Graph& graph, const Task& task)
    : graph_(graph), profile_(graph.profile()), task_(task), used_s_(profile_.resources.size(), 0) {
  const std::int64_t largest =
      std::min(std::max(graph.tile_bytes_most(), threshold_default), asked_bytes(task));
  while (size_end_ > 1 && tile_size(size_end_ - 2) >= largest) --size_end_;
  // Room for usual tiles in every ring of a path as long as paths get.
  constexpr std::int64_t room = tile_size(tile_size_usual) * slots_most * hops_max;
  const std::int64_t asked = task.query.buffer_bytes_max;
  const bool usual = graph.buffer_bytes_least() >= room && (asked == 0 || asked >= room);
  if (usual && largest >= 4 * tile_size(tile_size_usual)) size_first_ = tile_size_usual;
  narrowest_ = std::min(task.growth(), 1.0);
  for (int k = 0; k < tile_sizes; ++k) {
    const double tiles = task.bytes / static_cast<double>(tile_size(k));
    tiles_[at(k)] = std::max(tiles, 1.0);
    share_[at(k)] = std::min(tiles, 1.0);
  }
}

double Costs::at_least(const BySize& sum_s, const BySize& beat_s) const {
  double least = INFINITY;
  for (std::size_t k = at(size_first_); k < at(size_end_); ++k) {
    least = std::min(least, at_least(static_cast<int>(k), sum_s[k], beat_s[k]));
  }
  return least;
}

const TileChoice& Costs::tile_for(int first, int last, std::int64_t bytes_max) {
  const int of_first = first < 0 ? -1 : graph_.function(first);
  const int of_last = last < 0 ? -1 : graph_.function(last);
  for (const KnownTile& known : tiles_chosen_) {
    if (known.bytes_max == bytes_max && known.first == of_first && known.last == of_last) {
      return known.choice;
    }
  }
  const auto throughput = [&](int channel) {
    return channel < 0 ? nullptr : &profile_.channels[at(channel)].throughput;
  };
  tiles_chosen_.push_back(
      {of_first, of_last, bytes_max,
       choose_tile({&task_.source, throughput(first)}, {&task_.target, throughput(last)},
                   task_.extents, bytes_max)});
  return tiles_chosen_.back().choice;
}

Costs::KnownEnds& Costs::ends_of(int first, int last) {
  const int of_first = graph_.function(first);
  const int of_last = graph_.function(last);
  for (KnownEnds& known : ends_) {
    if (known.first == of_first && known.last == of_last) return known;
  }
  ends_.push_back({of_first, of_last, {}});
  return ends_.back();
}

double Costs::ends_known_s(int first, int last, int size) {
  return ends_of(first, last).least_s[at(size)];
}

double Costs::ends_s(int first, int last, int size) {
  const ChannelSpec& from = profile_.channels[at(first)];
  const ChannelSpec& to = profile_.channels[at(last)];
  if (from.gathers || to.gathers) return 0;
  const std::int64_t bytes = tile_size(size);
  const double time_s = static_cast<double>(bytes) / tile_for(first, last, bytes).rate_most;
  BySize& least_s = ends_of(first, last).least_s;
  for (int k = size_first_; k <= size; ++k) {
    // A smaller tile has no higher rate at its ends.
    least_s[at(k)] = std::max(least_s[at(k)], std::ldexp(time_s, k - size));
  }
  return time_s;
}

BySize Costs::common_runs_s(const ChannelSpec& channel) const {
  BySize times{};
  for (int k = size_first_; k < size_end_; ++k) {
    const std::int64_t bytes = tile_size(k);
    times[at(k)] =
        static_cast<double>(bytes) / channel.throughput.at(bytes, std::min(task_.common, bytes));
  }
  return times;
}

const BySize& Costs::common_runs_at_ends_s() {
  if (!at_ends_s_) {
    at_ends_s_.emplace();
    at_ends_s_->fill(INFINITY);
    std::vector<int> asked;
    for (std::size_t c = 0; c < profile_.channels.size(); ++c) {
      const ChannelSpec& channel = profile_.channels[c];
      const bool at_source = channel.source == task_.query.source_memory;
      const bool at_target = channel.target == task_.query.target_memory;
      if (!at_source && !at_target) continue;
      // Channels of one function have one time; only the first of them is asked.
      const int function = graph_.function(static_cast<int>(c));
      if (std::find(asked.begin(), asked.end(), function) != asked.end()) continue;
      asked.push_back(function);
      const BySize times = common_runs_s(channel);
      for (std::size_t k = at(size_first_); k < at(size_end_); ++k) {
        (*at_ends_s_)[k] = std::min((*at_ends_s_)[k], times[k]);
      }
    }
  }
  return *at_ends_s_;
}

const Costs::Converting& Costs::converting(int number) {
  const ChannelSpec& channel = profile_.channels[at(number)];
  const bool reads = traits_of(channel.kind).reads;
  const int loop = channel.gathers ? graph_.self_loop(reads ? channel.target : channel.source) : -1;
  for (const KnownConverting& known : converting_) {
    if (known.function == graph_.function(number) && known.loop == loop) return known.converting;
  }
  const BySize& plain_s = graph_.tile_s(number);
  Converting made;
  made.common_s = channel.gathers ? plain_s : common_runs_s(channel);
  if (loop >= 0) {
    const BySize copying_s = common_runs_s(profile_.channels[at(loop)]);
    for (std::size_t k = at(size_first_); k < at(size_end_); ++k) made.common_s[k] += copying_s[k];
  }
  // A tile in which both orders are the same has runs no longer than the common ones at an end.
  const BySize& at_ends_s = common_runs_at_ends_s();
  for (std::size_t k = at(size_first_); k < at(size_end_); ++k) {
    made.at_least_s[k] = std::min(made.common_s[k], std::max(plain_s[k], at_ends_s[k]));
  }
  converting_.push_back({graph_.function(number), loop, made});
  return converting_.back().converting;
}

double Costs::start_s(const ChannelSpec& channel, bool among_others) const {
  return channel.latency_s + (among_others && traits_of(channel.kind).gpu ? profile_.handoff_s : 0);
}

HopCost Costs::hop(int number, const HopRole& role, const Point& tile) const {
  const ChannelSpec& channel = profile_.channels[at(number)];
  // What is read before numbers change their types has the source's bytes, and the target's after.
  const std::int64_t source_point = task_.source.point_bytes;
  const std::int64_t target_point = task_.target.point_bytes;
  const std::int64_t point_bytes = role.converts    ? std::max(source_point, target_point)
                                   : role.converted ? target_point
                                                    : source_point;
  const std::int64_t tile_bytes = points_of(tile, task_.rank) * point_bytes;
  const auto bytes = static_cast<double>(tile_bytes);
  const std::int64_t at_source =
      role.first ? task_.source.run_bytes(tile) * point_bytes / source_point : tile_bytes;
  const std::int64_t at_target =
      role.last ? task_.target.run_bytes(tile) * point_bytes / target_point : tile_bytes;
  const std::int64_t common =
      role.converts ? common_bytes(task_.source, task_.target, tile, task_.same_fields) *
                          point_bytes / source_point
                    : tile_bytes;
  HopCost cost;
  cost.bytes = bytes;
  if (!channel.gathers) {
    cost.run_bytes = std::min({at_source, at_target, common, tile_bytes});
    cost.tile_s = bytes / channel.throughput.at(tile_bytes, cost.run_bytes);
    return cost;
  }
  // It copies in memory as well, between one access of the device and the next.
  const bool reads = traits_of(channel.kind).reads;
  cost.run_bytes = std::min(reads ? at_source : at_target, tile_bytes);
  cost.tile_s = bytes / channel.throughput.at(tile_bytes, cost.run_bytes);
  const int loop = graph_.self_loop(reads ? channel.target : channel.source);
  const std::int64_t in_memory = std::min(reads ? at_target : at_source, common);
  if (in_memory < tile_bytes && loop >= 0) {
    cost.tile_s += bytes / profile_.channels[at(loop)].throughput.at(tile_bytes, in_memory);
  }
  return cost;
}

HopCost Costs::hop(const Candidate& candidate, int number) const {
  const HopRole role{number == 0, number + 1 == candidate.path.count,
                     number == candidate.converting_hop,
                     candidate.converting_hop >= 0 && number > candidate.converting_hop};
  return hop(candidate.path.channels[at(number)], role, candidate.tile);
}

std::int64_t Costs::ring_bytes_max(const Path& path) const {
  std::int64_t least = INT64_MAX;
  for (int hop = 0; hop + 1 < path.count; ++hop) {
    const int memory = profile_.channels[at(path.channels[at(hop)])].target;
    int rings_there = 0;
    for (int other = 0; other + 1 < path.count; ++other) {
      rings_there += profile_.channels[at(path.channels[at(other)])].target == memory ? 1 : 0;
    }
    least = std::min(least, profile_.memories[at(memory)].buffer_bytes_max / rings_there);
  }
  if (task_.query.buffer_bytes_max > 0 && path.count > 1) {
    least = std::min(least, task_.query.buffer_bytes_max / (path.count - 1));
  }
  return least;
}

std::int64_t Costs::tile_bytes_max(const Path& path) const {
  const ChannelSpec& first = profile_.channels[at(path.channels[0])];
  if (path.count == 1)
    return traits_of(first.kind).converts_well ? memory_tile_max : threshold_default;
  std::int64_t most = ring_bytes_max(path) / 2;
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
  const std::int64_t fit = ring_bytes_max(candidate.path) / slot;
  // More than two only as far as other transfers find room beside this one.
  const std::int64_t wanted = std::max(fit / transfers_abreast, std::int64_t{2});
  return static_cast<int>(std::min({slots_most, fit, wanted, std::max<std::int64_t>(tiles, 2)}));
}

Candidate Costs::tiled(const Path& path, int converting_hop, std::int64_t bytes_max, bool even) {
  const ChannelSpec& first = profile_.channels[at(path.channels[0])];
  const ChannelSpec& last = profile_.channels[at(path.channels[at(path.count - 1)])];
  // Runs in memory cost a gathering channel nothing; a channel that converts sees the common runs,
  // whatever the tile.
  const bool first_sees =
      first.gathers ? traits_of(first.kind).reads : converting_hop != 0 || path.count == 1;
  const bool last_sees = last.gathers ? !traits_of(last.kind).reads
                                      : converting_hop != path.count - 1 || path.count == 1;
  Candidate candidate;
  candidate.path = path;
  candidate.converting_hop = converting_hop;
  candidate.tile = tile_for(first_sees && !even ? path.channels[0] : -1,
                            last_sees && !even ? path.channels[at(path.count - 1)] : -1, bytes_max)
                       .tile;
  candidate.tile_bytes = points_of(candidate.tile, task_.rank) * task_.source.point_bytes;
  candidate.slots = count_slots(candidate);
  if (path.count == 1 || candidate.slots > 0) predict(candidate);
  return candidate;
}

void Costs::predict(Candidate& candidate) {
  double fill_s = 0;
  double beat_s = 0;
  double wait_s = 0;
  double held_s = 0;  // how long a slot is held, by the hops before and after it
  double before_s = 0;
  for (int k = 0; k < candidate.path.count; ++k) {
    const int number = candidate.path.channels[at(k)];
    const ChannelSpec& channel = profile_.channels[at(number)];
    const HopCost cost = hop(candidate, k);
    const double tile_s = cost.tile_s;
    if (at(number) < task_.query.waiting_s.size()) {
      wait_s = std::max(wait_s, task_.query.waiting_s[at(number)] - fill_s);
    }
    // Of a pipeline, a thread carries a tile alone while others carry the next ones.
    const double alone_s = candidate.path.count > 1 ? channel.width * tile_s : tile_s;
    fill_s += start_s(channel, candidate.path.count > 1) + alone_s;
    if (k > 0) held_s = std::max(held_s, before_s + alone_s);
    before_s = alone_s;
    if (tile_s > beat_s) {
      beat_s = tile_s;
      candidate.binding = {number, -1};
    }
    for (const int r : channel.resources) {
      const double capacity = profile_.resources[at(r)].bytes_per_second;
      used_s_[at(r)] += capacity > 0 ? cost.bytes / capacity : tile_s;
    }
  }
  for (int k = 0; k < candidate.path.count; ++k) {
    for (const int r : profile_.channels[at(candidate.path.channels[at(k)])].resources) {
      if (used_s_[at(r)] > beat_s * (1 + 1e-9)) {
        beat_s = used_s_[at(r)];
        candidate.binding = {-1, r};
      }
      used_s_[at(r)] = 0;
    }
  }
  if (candidate.slots > 0) beat_s = std::max(beat_s, held_s / candidate.slots);
  // With one slot a ring, no hop can work while its neighbour does.
  if (candidate.slots == 1) beat_s = fill_s;
  const auto bytes = static_cast<double>(candidate.tile_bytes);
  const double tiles = task_.bytes / std::max(bytes, 1.0);
  candidate.seconds = wait_s + fill_s + std::max(tiles - 1, 0.0) * beat_s;
  candidate.bytes_per_second = beat_s > 0 ? bytes / beat_s : 0;
}

void Costs::sums(const Path& path, int converting_hop, BySize& sum_s, BySize& beat_s) {
  sum_s.fill(0);
  beat_s.fill(0);
  for (int hop = 0; hop < path.count; ++hop) {
    const int channel = path.channels[at(hop)];
    const BySize& times =
        hop == converting_hop ? converting(channel).at_least_s : graph_.tile_s(channel);
    const double latency_s = profile_.channels[at(channel)].latency_s;
    for (std::size_t k = 0; k < tile_sizes; ++k) {
      sum_s[k] += times[k] + latency_s;
      beat_s[k] = std::max(beat_s[k], times[k]);
    }
  }
}

bool Costs::in_one_launch(const Path& path) const {
  const ChannelKind kind = profile_.channels[at(path.channels[0])].kind;
  return path.count == 1 && (kind == ChannelKind::gpu_copy || kind == ChannelKind::gpu_peer);
}

bool Costs::in_memory_alone(const Path& path) const {
  const ChannelSpec& channel = profile_.channels[at(path.channels[0])];
  return path.count == 1 && task_.trades_runs && traits_of(channel.kind).converts_well &&
         !in_one_launch(path);
}

Candidate Costs::tiled_in_memory(const Candidate& candidate) {
  const ChannelSpec& channel = profile_.channels[at(candidate.path.channels[0])];
  const std::int64_t share = asked_bytes(task_) / (memory_tiles_least * channel.width);
  const std::int64_t bytes = std::clamp(share, tile_preferred_least, memory_tile_max);
  Candidate even = candidate;
  even.tile = choose_even_tile(task_.source, task_.target, task_.extents, bytes);
  even.tile_bytes = points_of(even.tile, task_.rank) * task_.source.point_bytes;
  predict(even);
  return even.seconds <= candidate.seconds * tile_tolerance ? even : candidate;
}

Candidate Costs::launched(const Path& path, int converting_hop) {
  Candidate candidate;
  candidate.path = path;
  candidate.converting_hop = converting_hop;
  candidate.tile = task_.extents;
  candidate.tile_bytes = asked_bytes(task_);
  predict(candidate);
  return candidate;
}

Candidate Costs::in_tiles(const Candidate& candidate) {
  if (!in_one_launch(candidate.path)) return candidate;
  return in_tiles_of(candidate, std::min(threshold_default, asked_bytes(task_)));
}

Candidate Costs::in_tiles_of(const Candidate& candidate, std::int64_t bytes_max) {
  Candidate cut = tiled(candidate.path, candidate.converting_hop, bytes_max, false);
  cut.planner = candidate.planner;
  return cut;
}

std::optional<Candidate> Costs::best_tiling(const Path& path, int converting_hop,
                                            double seconds_max) {
  if (in_one_launch(path)) return launched(path, converting_hop);
  const std::int64_t most = tile_bytes_max(path);
  if (most == 0) return std::nullopt;
  BySize sum_s;
  BySize beat_s;
  sums(path, converting_hop, sum_s, beat_s);
  const bool both_ends = task_.trades_runs && converting_hop > 0 && converting_hop + 1 < path.count;
  int largest = size_first_;
  while (largest + 1 < size_end_ && tile_size(largest) < most) ++largest;
  std::optional<Candidate> best;
  double fastest = INFINITY;
  double to_beat = seconds_max;
  for (int k = largest; k >= size_first_; --k) {
    // Rounded to what divides small extents, a tile may be little larger than the next size.
    const int filling = task_.coarse && k > size_first_ ? k - 1 : k;
    const double fill_s = narrowest_ * share_[at(filling)] * sum_s[at(filling)];
    const double rest = narrowest_ * (tiles_[at(k)] - 1);
    if (fill_s + rest * beat_s[at(k)] >= to_beat) continue;
    if (both_ends) {
      const double ends = ends_s(path.channels[0], path.channels[at(path.count - 1)], k);
      if (fill_s + rest * std::max(beat_s[at(k)], ends) >= to_beat) continue;
    }
    const Candidate candidate = tiled(path, converting_hop, std::min(tile_size(k), most), false);
    const bool fits = path.count == 1 || candidate.slots > 0;
    // A smaller tile need not be faster, only not slower by more than the tolerance.
    if (!fits || candidate.seconds >= to_beat) continue;
    best = candidate;
    fastest = std::min(fastest, candidate.seconds);
    const bool preferred = k > size_first_ && tile_size(k - 1) >= tile_preferred_least;
    to_beat = preferred ? fastest * tile_tolerance : fastest / tile_tolerance;
    to_beat = std::min(seconds_max, to_beat);
  }
  return best && in_memory_alone(path) ? tiled_in_memory(*best) : best;
}

void Costs::refine(Candidate& candidate, int rounds) {
  if (in_one_launch(candidate.path)) return;
  const bool is_even = in_memory_alone(candidate.path);
  const std::int64_t most = tile_bytes_max(candidate.path);
  Candidate best = candidate;
  const std::array<const Order*, 2> ends{&task_.source, &task_.target};
  std::array<std::int64_t, 2> runs_least{};
  Point near;  // what shares lines across gaps, where the tile has all of it
  near.fill(1);
  for (const Order* end : ends) end->enlarge_to_lines(line_pair_bytes, task_.extents, near);
  for (std::size_t k = 0; k < ends.size(); ++k) {
    runs_least[k] = std::min(line_pair_bytes, ends[k]->run_bytes(candidate.tile));
  }
  const auto splits_lines = [&](const Point& tile) {
    for (int k = 0; k < task_.rank; ++k) {
      if (tile[at(k)] < std::min(near[at(k)], candidate.tile[at(k)])) return true;
    }
    return ends[0]->run_bytes(tile) < runs_least[0] || ends[1]->run_bytes(tile) < runs_least[1];
  };
  const auto fitted = [&](int k, std::int64_t extent) {
    const std::int64_t block = std::max(task_.source.blocks[at(k)], task_.target.blocks[at(k)]);
    const std::int64_t whole = task_.extents[at(k)];
    return in_units(std::clamp<std::int64_t>(extent, 1, whole), block, whole);
  };
  const auto try_tile = [&](const Point& tile) {
    if (splits_lines(tile)) return;
    Candidate other = candidate;
    other.tile = tile;
    other.tile_bytes = points_of(tile, task_.rank) * task_.source.point_bytes;
    if (other.tile_bytes > most) return;
    other.slots = count_slots(other);
    if (other.path.count > 1 && other.slots == 0) return;
    predict(other);
    // A larger tile must be worth it, as everywhere, and so must one of uneven spans.
    const double margin = is_even || other.tile_bytes > best.tile_bytes ? tile_tolerance : 1;
    if (other.seconds * margin < best.seconds) best = other;
  };
  for (int round = 0; round < rounds; ++round) {
    const Point tile = best.tile;
    const double before_s = best.seconds;
    for (int k = 0; k < task_.rank; ++k) {
      if (task_.extents[at(k)] <= 1) continue;
      const std::int64_t others = best.tile_bytes / tile[at(k)];
      const std::int64_t room = std::max<std::int64_t>(most / std::max<std::int64_t>(others, 1), 1);
      const std::int64_t block = std::max(task_.source.blocks[at(k)], task_.target.blocks[at(k)]);
      const std::int64_t now = tile[at(k)];
      const std::int64_t whole = task_.extents[at(k)];
      const std::int64_t count = (whole + now - 1) / now;
      const std::int64_t fewer = (whole + count - 2) / std::max<std::int64_t>(count - 1, 1);
      const std::int64_t more = (whole + count) / (count + 1);
      for (const std::int64_t extent : {now * 2, now * 5 / 4, now * 4 / 5, (now + 1) / 2, fewer,
                                        more, room, block, whole, std::int64_t{1}}) {
        Point changed = tile;
        changed[at(k)] = fitted(k, extent);
        if (changed[at(k)] == now) continue;
        try_tile(changed);
        // What one dimension gains, another one gives.
        for (int j = 0; j < task_.rank; ++j) {
          if (j == k || task_.extents[at(j)] <= 1) continue;
          Point traded = changed;
          traded[at(j)] = 1;
          const std::int64_t rest = points_of(traded, task_.rank) * task_.source.point_bytes;
          traded[at(j)] = fitted(j, most / rest);
          try_tile(traded);
        }
      }
    }
    if (best.seconds > before_s * refine_least) break;
  }
  candidate = best;
}

std::optional<Candidate> Costs::quick_tiling(const Path& path, int converting_hop) {
  if (in_one_launch(path)) return launched(path, converting_hop);
  const std::int64_t most = tile_bytes_max(path);
  if (most == 0) return std::nullopt;
  BySize sum_s;
  BySize beat_s;
  sums(path, -1, sum_s, beat_s);  // the conversion counts when the tile is there
  int best = size_first_;
  int largest = size_first_;  // that still makes a pipeline
  double best_s = INFINITY;
  for (int k = size_first_; k < size_end_; ++k) {
    if (k > size_first_ && tile_size(k - 1) >= most) break;
    const double seconds = at_least(k, sum_s[at(k)], beat_s[at(k)]);
    if (static_cast<double>(tile_size(k) * slots_most) <= task_.bytes) largest = k;
    if (seconds * tile_tolerance >= best_s) continue;
    best_s = seconds;
    best = k;
  }
  // Where runs at one end are traded for runs at the other, only a large tile has long ones.
  if (task_.trades_runs && path.count > 1) best = std::max(best, largest);
  const Candidate candidate = tiled(path, converting_hop, std::min(tile_size(best), most), true);
  if (in_memory_alone(path)) return tiled_in_memory(candidate);
  if (path.count > 1 && candidate.slots == 0) return best_tiling(path, converting_hop, INFINITY);
  return candidate;
}

}  // namespace tranship
