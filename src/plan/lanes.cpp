#include "plan/lanes.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/at.hpp"
#include "plan/tile.hpp"

namespace tranship {
namespace {

/// Largest number of paths that are searched.
constexpr int paths_most = 8;
/// Least rate that the paths before must leave for another one, as a share of the first path's.
constexpr double path_share_least = 0.1;
/// Least rate of a lane, as a share of the first path's rate: the tiles of a slow lane end late.
constexpr double lane_share_least = 0.2;
/// Least share of the time that further lanes must save.
constexpr double lanes_gain_least = 0.05;
/// Numbers of tiles of each lane that are tried where the best path's tile makes fewer of them.
constexpr std::array<double, 6> tiles_each{1, 2, 3, 5, 8, 16};
/// Smallest of these tiles in bytes: each costs the scheduler some microseconds.
constexpr std::int64_t lane_tile_least = std::int64_t{256} << 10;
/// Factor in predicted time that makes a smaller tile worth its work.
constexpr double lane_tile_tolerance = 1.02;
/// Tiles of a lane that a channel takes before the first of them ends.
constexpr std::int64_t tiles_begun_first = 2;
/// Share of the largest flow that equal rates must reach to be preferred to it.
constexpr double fair_share = 0.999;

/// Remaining capacity of channels (shares of their time) and resources (bytes/s, or shares).
class Residual {
 public:
  Residual(const Profile& profile, const Task& task, const Costs& costs, const Candidate& best)
      : profile_(profile),
        task_(task),
        costs_(costs),
        tile_(best.tile),
        tile_bytes_(static_cast<double>(best.tile_bytes)),
        channels_(profile.channels.size(), 1.0) {
    for (const Resource& resource : profile.resources) {
      resources_.push_back(resource.bytes_per_second > 0 ? resource.bytes_per_second : 1.0);
    }
    for (const int channel : task.query.closed_channels) channels_[at(channel)] = 0;
  }

  double rate(int channel, const HopRole& role) const {
    return tile_bytes_ / costs_.hop(channel, role, tile_).tile_s;
  }

  /// Returns the rate that another path could have over this channel.
  double left(int channel, const HopRole& role) const {
    const double rate = this->rate(channel, role);
    double least = rate * channels_[at(channel)];
    for (const int r : profile_.channels[at(channel)].resources) {
      const bool turns = profile_.resources[at(r)].bytes_per_second <= 0;
      least = std::min(least, turns ? rate * resources_[at(r)] : resources_[at(r)]);
    }
    return least;
  }

  void take(const Candidate& lane, double flow) {
    for (int k = 0; k < lane.path.count; ++k) {
      const int channel = lane.path.channels[at(k)];
      const double rate = this->rate(channel, role_of(lane, k));
      channels_[at(channel)] = std::max(channels_[at(channel)] - flow / rate, 0.0);
      for (const int r : profile_.channels[at(channel)].resources) {
        const bool turns = profile_.resources[at(r)].bytes_per_second <= 0;
        resources_[at(r)] = std::max(resources_[at(r)] - (turns ? flow / rate : flow), 0.0);
      }
    }
  }

  static HopRole role_of(const Candidate& lane, int hop) {
    return {hop == 0, hop + 1 == lane.path.count, hop == lane.converting_hop,
            lane.converting_hop >= 0 && hop > lane.converting_hop};
  }

  const Task& task() const { return task_; }

 private:
  const Profile& profile_;
  const Task& task_;
  const Costs& costs_;
  Point tile_;
  double tile_bytes_;
  std::vector<double> channels_;
  std::vector<double> resources_;
};

/// Finds the widest path by Dijkstra's algorithm. Its nodes are pairs of a memory and whether the
/// layout is converted already.
class WidestPath {
 public:
  WidestPath(const Graph& graph, const Residual& residual)
      : graph_(graph), profile_(graph.profile()), residual_(residual) {
    states_.resize(2 * profile_.memories.size());
  }

  std::optional<Candidate> find(const Candidate& like) {
    const PlanQuery& query = residual_.task().query;
    const bool converts = residual_.task().converts;
    states_[state(query.source_memory, !converts)].width = INFINITY;
    while (const auto next = widest_open()) {
      states_[*next].closed = true;
      if (*next == state(query.target_memory, true)) break;
      extend(*next);
    }
    return trace_back(like);
  }

 private:
  struct State {
    double width = 0;
    bool closed = false;
    int channel = -1;
    bool converted_here = false;
    std::size_t before = 0;
  };

  static std::size_t state(int memory, bool converted) {
    return 2 * at(memory) + (converted ? 1 : 0);
  }

  std::optional<std::size_t> widest_open() const {
    std::optional<std::size_t> best;
    for (std::size_t k = 0; k < states_.size(); ++k) {
      if (states_[k].closed || states_[k].width <= 0) continue;
      if (!best || states_[k].width > states_[*best].width) best = k;
    }
    return best;
  }

  void extend(std::size_t from) {
    const PlanQuery& query = residual_.task().query;
    const int memory = static_cast<int>(from / 2);
    const bool converted = from % 2 == 1;
    for (const int channel : graph_.leaving(memory)) {
      const int next = profile_.channels[at(channel)].target;
      for (const bool converts : {false, true}) {
        if ((converts && converted) || (next == memory && !converts)) continue;
        if (converts && !residual_.task().may_convert(profile_.channels[at(channel)])) continue;
        const bool done = next == query.target_memory && (converted || converts);
        if (!done && profile_.memories[at(next)].buffer_bytes_max <= 0) continue;
        const HopRole role{memory == query.source_memory, next == query.target_memory, converts,
                           converted && residual_.task().converts};
        const double width = std::min(states_[from].width, residual_.left(channel, role));
        State& reached = states_[state(next, converted || converts)];
        if (reached.closed || width <= reached.width) continue;
        reached = {width, false, channel, converts, from};
      }
    }
  }

  std::optional<Candidate> trace_back(const Candidate& like) const {
    const PlanQuery& query = residual_.task().query;
    Candidate found = like;
    found.path = {};
    found.converting_hop = -1;
    std::vector<std::pair<int, bool>> hops;
    std::vector<int> seen;
    for (std::size_t s = state(query.target_memory, true); states_[s].channel >= 0;
         s = states_[s].before) {
      if (hops.size() >= hops_max) return std::nullopt;
      hops.push_back({states_[s].channel, states_[s].converted_here});
      const ChannelSpec& channel = profile_.channels[at(states_[s].channel)];
      if (channel.source == channel.target) continue;
      if (std::find(seen.begin(), seen.end(), channel.target) != seen.end()) return std::nullopt;
      seen.push_back(channel.target);
    }
    if (hops.empty()) return std::nullopt;
    for (std::size_t k = hops.size(); k > 0; --k) {
      if (hops[k - 1].second) found.converting_hop = found.path.count;
      found.path.add(hops[k - 1].first);
    }
    found.bytes_per_second = states_[state(query.target_memory, true)].width;
    return found;
  }

  const Graph& graph_;
  const Profile& profile_;
  const Residual& residual_;
  std::vector<State> states_;
};

/// The rates of some paths, and their bottleneck.
struct Flows {
  std::vector<double> rates;
  Binding binding;
};

/// What lanes use of the channels and resources that they pass: one row for each of these, in units
/// of the first lane's rate and of the row's limit, so that all numbers are near 1.
struct Usage {
  std::vector<std::vector<double>> rows;
  std::vector<Binding> of;  ///< by row
  double unit = 0;

  std::vector<double>& row(const Binding& wanted, std::size_t lanes) {
    for (std::size_t k = 0; k < of.size(); ++k) {
      if (of[k].channel == wanted.channel && of[k].resource == wanted.resource) return rows[k];
    }
    of.push_back(wanted);
    rows.emplace_back(lanes, 0.0);
    return rows.back();
  }
};

Usage usage_of(const Profile& profile, const Residual& rates, const std::vector<Candidate>& lanes) {
  Usage usage;
  usage.unit = lanes[0].bytes_per_second;
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    for (int k = 0; k < lanes[lane].path.count; ++k) {
      const int channel = lanes[lane].path.channels[at(k)];
      const double rate = rates.rate(channel, Residual::role_of(lanes[lane], k));
      usage.row({channel, -1}, lanes.size())[lane] += usage.unit / rate;
      for (const int r : profile.channels[at(channel)].resources) {
        const double capacity = profile.resources[at(r)].bytes_per_second;
        usage.row({-1, r}, lanes.size())[lane] += usage.unit / (capacity > 0 ? capacity : rate);
      }
    }
  }
  return usage;
}

double used_of(const std::vector<double>& row, const std::vector<double>& rates) {
  return std::inner_product(row.begin(), row.end(), rates.begin(), 0.0);
}

/// Returns the rates that requests which take turns make: those of all lanes rise together, each
/// until a row that it uses is used up.
std::vector<double> fair_flow(const std::vector<std::vector<double>>& rows, std::size_t lanes) {
  std::vector<double> rates(lanes, 0);
  std::vector<double> rising(lanes, 1);
  while (true) {
    double step = INFINITY;
    for (const auto& row : rows) {
      const double more = used_of(row, rising);
      if (more > 0) step = std::min(step, std::max(1 - used_of(row, rates), 0.0) / more);
    }
    if (!std::isfinite(step)) return rates;
    for (std::size_t k = 0; k < lanes; ++k) rates[k] += step * rising[k];
    for (const auto& row : rows) {
      if (used_of(row, rates) < 1 - 1e-9) continue;
      for (std::size_t k = 0; k < lanes; ++k) {
        if (row[k] > 0) rising[k] = 0;
      }
    }
  }
}

Flows flows_of(const Profile& profile, const Residual& rates, const std::vector<Candidate>& lanes) {
  const Usage usage = usage_of(profile, rates, lanes);
  const auto sum = [](const std::vector<double>& all) {
    return std::accumulate(all.begin(), all.end(), 0.0);
  };
  Flows flows{largest_flow(usage.rows, std::vector<double>(usage.rows.size(), 1.0)), {}};
  std::vector<double> fair = fair_flow(usage.rows, lanes.size());
  if (sum(fair) >= fair_share * sum(flows.rates)) flows.rates = std::move(fair);
  double most = 0;
  for (std::size_t row = 0; row < usage.rows.size(); ++row) {
    // Of those that are used up, a resource says more than one of its channels.
    const double margin = usage.of[row].resource >= 0 ? 1 - 1e-9 : 1 + 1e-9;
    const double used = used_of(usage.rows[row], flows.rates);
    if (used <= most * margin) continue;
    most = used;
    flows.binding = usage.of[row];
  }
  for (double& rate : flows.rates) rate *= usage.unit;
  return flows;
}

/// Returns the number of slots of each buffer if all lanes share the budgets evenly.
int slots_of(const Costs& costs, const Task& task, const std::vector<Candidate>& lanes) {
  std::int64_t slots = INT64_MAX;
  const std::int64_t slot =
      std::max(task.source.slot_bytes(lanes[0].tile), task.target.slot_bytes(lanes[0].tile));
  const std::int64_t tiles = tile_count(task.extents, lanes[0].tile, task.rank);
  for (const Candidate& lane : lanes) {
    if (lane.path.count < 2) continue;
    const auto sharing = static_cast<std::int64_t>(lanes.size());
    slots = std::min({slots, slots_most, std::max<std::int64_t>(tiles, 2),
                      costs.ring_bytes_max(lane.path) / sharing / slot});
  }
  return slots == INT64_MAX ? 0 : static_cast<int>(slots);
}

/// Times of one lane, in seconds, and the tiles that it carries.
struct Line {
  double fill_s = 0;   ///< time of a tile beyond that in the lane's slowest hop
  double tile_s = 0;   ///< time of a tile in the slowest hop while all lanes work
  double alone_s = 0;  ///< time of a tile in the slowest hop while this lane works alone
  double wait_s = 0;   ///< time until the first tiles of other lanes have passed what they share
  double tiles = 0;

  /// Returns when `count` tiles have ended.
  double end_s(double count) const {
    return fill_s + std::max(count * tile_s, wait_s + count * alone_s);
  }
  /// Returns how many tiles have ended after so many seconds.
  double ended_by(double seconds) const {
    const double left_s = seconds - fill_s;
    return std::floor(std::max(std::min(left_s / tile_s, (left_s - wait_s) / alone_s), 0.0));
  }
};

/// Hands out tiles so that the last of them ends as early as possible, and returns when that is.
double seconds_of(std::vector<Line>& lines, double tiles) {
  double filled = tiles;
  double per_s = 0;
  for (const Line& line : lines) {
    filled += line.fill_s / line.tile_s;
    per_s += 1 / line.tile_s;
  }
  const double least_s = filled / per_s;  // if tiles could be divided
  for (Line& line : lines) {
    line.tiles = std::min(line.ended_by(least_s), tiles);
    tiles -= line.tiles;
  }
  for (; tiles > 0; --tiles) {
    const auto next = std::min_element(
        lines.begin(), lines.end(),
        [](const auto& a, const auto& b) { return a.end_s(a.tiles + 1) < b.end_s(b.tiles + 1); });
    ++next->tiles;
  }
  double last_s = 0;
  for (const Line& line : lines) last_s = std::max(last_s, line.end_s(line.tiles));
  return last_s;
}

/// Finds paths, each the widest one in the capacity that the paths before it leave.
std::vector<Candidate> find_paths(const Graph& graph, const Task& task, const Costs& costs,
                                  const Candidate& best) {
  Residual residual(graph.profile(), task, costs, best);
  std::vector<Candidate> lanes{best};
  residual.take(best, best.bytes_per_second);
  while (static_cast<int>(lanes.size()) < paths_most) {
    const auto next = WidestPath(graph, residual).find(best);
    if (!next || next->bytes_per_second < path_share_least * best.bytes_per_second) break;
    residual.take(*next, next->bytes_per_second);
    lanes.push_back(*next);
  }
  return lanes;
}

/// Finds the best lanes among some paths for one tile after another.
class LaneSearch {
 public:
  LaneSearch(const Graph& graph, const Task& task, const Costs& costs, std::vector<Candidate> paths,
             int lanes_max)
      : profile_(graph.profile()),
        task_(task),
        costs_(costs),
        paths_(std::move(paths)),
        lanes_max_(lanes_max) {}

  std::size_t paths() const { return paths_.size(); }

  /// Returns the lanes that carry the transfer in tiles like `cut`'s with the least predicted time;
  /// none if no two lanes can.
  std::optional<LaneChoice> best_of(const Candidate& cut) const {
    const Residual rates(profile_, task_, costs_, cut);
    std::vector<Candidate> lanes = paths_;
    for (Candidate& lane : lanes) {
      lane.tile = cut.tile;
      lane.tile_bytes = cut.tile_bytes;
    }
    std::optional<LaneChoice> best;
    while (lanes.size() > 1) {
      const Flows flows = flows_of(profile_, rates, lanes);
      const auto least = std::min_element(flows.rates.begin() + 1, flows.rates.end());
      const bool too_many = static_cast<int>(lanes.size()) > lanes_max_;
      const bool all_flow = flows.rates[0] > 0;
      if (!too_many && all_flow && *least >= lane_share_least * cut.bytes_per_second) {
        const auto choice = choice_of(lanes, flows);
        if (choice && (!best || choice->seconds < best->seconds)) best = choice;
      }
      lanes.erase(lanes.begin() + (least - flows.rates.begin()));
    }
    return best;
  }

 private:
  /// Returns the lanes' times but for `tile_s`. A channel takes some tiles at once, and the first
  /// tile of a lane waits behind those of all lanes before it for the resources that they share.
  std::vector<Line> lines_of(const std::vector<Candidate>& lanes, std::int64_t tiles) const {
    const auto count = static_cast<std::int64_t>(lanes.size());
    const auto begun =
        static_cast<double>(std::min(tiles_begun_first, (tiles + count - 1) / count));
    std::vector<double> queued_s(profile_.resources.size(), 0);
    std::vector<Line> lines(lanes.size());
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      Line& line = lines[lane];
      for (int k = 0; k < lanes[lane].path.count; ++k) {
        const ChannelSpec& channel = profile_.channels[at(lanes[lane].path.channels[at(k)])];
        const HopCost cost = costs_.hop(lanes[lane], k);
        const double tile_s = cost.tile_s;
        line.fill_s += costs_.start_s(channel, true) + tile_s;
        line.alone_s = std::max(line.alone_s, tile_s);
        for (const int r : channel.resources) {
          const double capacity = profile_.resources[at(r)].bytes_per_second;
          const double used_s = capacity > 0 ? cost.bytes / capacity : tile_s;
          line.wait_s = std::max(line.wait_s, queued_s[at(r)] + used_s - tile_s);
          queued_s[at(r)] += begun * used_s;
        }
      }
      line.fill_s -= line.alone_s;
    }
    return lines;
  }

  std::optional<LaneChoice> choice_of(const std::vector<Candidate>& lanes,
                                      const Flows& flows) const {
    LaneChoice choice{lanes, 0, 0, flows.binding};
    const int slots = slots_of(costs_, task_, lanes);
    const std::int64_t tiles = tile_count(task_.extents, lanes[0].tile, task_.rank);
    std::vector<Line> lines = lines_of(lanes, tiles);
    for (std::size_t k = 0; k < lanes.size(); ++k) {
      if (lanes[k].path.count > 1 && slots < 2) return std::nullopt;
      choice.lanes[k].bytes_per_second = flows.rates[k];
      choice.lanes[k].slots = slots;
      choice.bytes_per_second += flows.rates[k];
      choice.lanes[k].fill_s = lines[k].fill_s;
      lines[k].tile_s = static_cast<double>(lanes[k].tile_bytes) / flows.rates[k];
    }
    choice.seconds = seconds_of(lines, static_cast<double>(tiles));
    const bool all_work =
        std::all_of(lines.begin(), lines.end(), [](const Line& line) { return line.tiles > 0; });
    return all_work ? std::optional(choice) : std::nullopt;
  }

  const Profile& profile_;
  const Task& task_;
  const Costs& costs_;
  std::vector<Candidate> paths_;
  int lanes_max_;
};

}  // namespace

std::vector<double> largest_flow(const std::vector<std::vector<double>>& a,
                                 const std::vector<double>& b) {
  if (a.empty()) return {};
  const std::size_t rows = a.size();
  const std::size_t columns = a[0].size();
  // One column for each variable and slack, and the right-hand side; the last row is the objective.
  std::vector<std::vector<double>> table(rows + 1, std::vector<double>(columns + rows + 1, 0));
  std::vector<std::size_t> basis(rows);
  for (std::size_t r = 0; r < rows; ++r) {
    std::copy(a[r].begin(), a[r].end(), table[r].begin());
    table[r][columns + r] = 1;
    table[r].back() = b[r];
    basis[r] = columns + r;
  }
  std::fill_n(table[rows].begin(), columns, -1.0);
  while (true) {
    // Bland's rule: the first column that gains, so that the method ends.
    std::size_t enters = 0;
    while (enters < columns + rows && table[rows][enters] > -1e-12) ++enters;
    if (enters == columns + rows) break;
    std::size_t leaves = rows;
    for (std::size_t r = 0; r < rows; ++r) {
      if (table[r][enters] <= 1e-15) continue;
      const auto ratio = [&](std::size_t row) { return table[row].back() / table[row][enters]; };
      if (leaves == rows || ratio(r) < ratio(leaves) ||
          (ratio(r) == ratio(leaves) && basis[r] < basis[leaves])) {
        leaves = r;
      }
    }
    if (leaves == rows) break;  // nothing limits it: the caller's rows see to that
    const double pivot = table[leaves][enters];
    for (double& value : table[leaves]) value /= pivot;
    for (std::size_t r = 0; r <= rows; ++r) {
      const double factor = table[r][enters];
      if (r == leaves || factor == 0) continue;
      for (std::size_t c = 0; c < table[r].size(); ++c) table[r][c] -= factor * table[leaves][c];
    }
    basis[leaves] = enters;
  }
  std::vector<double> x(columns, 0);
  for (std::size_t r = 0; r < rows; ++r) {
    if (basis[r] < columns) x[basis[r]] = table[r].back();
  }
  return x;
}

LaneChoice choose_lanes(const Graph& graph, const Task& task, Costs& costs, const Candidate& whole,
                        int lanes_max) {
  const Profile& profile = graph.profile();
  LaneChoice alone{{whole}, whole.seconds, whole.bytes_per_second, whole.binding};
  if (lanes_max < 2) return alone;
  const Candidate best = costs.in_tiles(whole);
  // Hops that are fast enough for one lane may need longer requests to carry two.
  const std::int64_t longest =
      std::min(static_cast<std::int64_t>(task.bytes / 2), costs.tile_bytes_max(best.path));
  const bool longer = best.path.count > 1 && longest > best.tile_bytes;
  const Candidate widest = longer ? costs.in_tiles_of(best, longest) : best;
  const LaneSearch search(graph, task, costs, find_paths(graph, task, costs, widest), lanes_max);
  if (search.paths() < 2) return alone;
  std::optional<LaneChoice> choice = search.best_of(best);
  const auto consider = [&](const Candidate& cut) {
    const auto other = search.best_of(cut);
    // A smaller tile must be worth its work.
    const double margin = choice ? lane_tile_tolerance : 1;
    if (other && (!choice || other->seconds * margin < choice->seconds)) choice = other;
  };
  const auto count = static_cast<double>(std::min(search.paths(), at(lanes_max)));
  for (std::int64_t bytes = 2 * best.tile_bytes; longer && bytes < 2 * longest; bytes *= 2) {
    consider(costs.in_tiles_of(best, std::min(bytes, longest)));
  }
  std::int64_t tried = best.tile_bytes;
  for (const double each : tiles_each) {
    // Half a tile of room, since choose_tile() rounds the extents to whole blocks and lines.
    const auto bytes = static_cast<std::int64_t>(task.bytes / (each * count - 0.5));
    if (bytes >= tried || bytes < lane_tile_least) continue;
    const Candidate cut = costs.in_tiles_of(best, bytes);
    if (cut.tile_bytes >= tried) continue;
    tried = cut.tile_bytes;
    consider(cut);
  }
  if (!choice) return alone;
  // The lanes' workers wake at the same time.
  const double gain_s = whole.seconds - (choice->seconds + profile.handoff_s);
  return gain_s > lanes_gain_least * whole.seconds ? *choice : alone;
}

}  // namespace tranship
