#include "plan/lanes.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/at.hpp"

namespace tranship {
namespace {

/// Largest number of paths that are searched.
constexpr int paths_most = 8;
/// Least rate of a lane, as a share of the first path's rate: the tiles of a slow lane end late.
constexpr double lane_share_least = 0.2;
/// Least share of the time that further lanes must save.
constexpr double lanes_gain_least = 0.05;

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
    return {hop == 0, hop + 1 == lane.path.count, hop == lane.converting_hop};
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
        const bool done = next == query.target_memory && (converted || converts);
        if (!done && profile_.memories[at(next)].buffer_bytes_max <= 0) continue;
        const HopRole role{memory == query.source_memory, next == query.target_memory, converts};
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

/// One row of the program for each channel and resource, in units of the first path's rate and of
/// the row's limit, so that all numbers are near 1.
Flows flows_of(const Profile& profile, const Residual& rates, const std::vector<Candidate>& lanes) {
  const std::size_t channels = profile.channels.size();
  std::vector<std::vector<double>> rows(channels + profile.resources.size(),
                                        std::vector<double>(lanes.size(), 0));
  const std::vector<double> limits(rows.size(), 1.0);
  const double unit = lanes[0].bytes_per_second;
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    for (int k = 0; k < lanes[lane].path.count; ++k) {
      const int channel = lanes[lane].path.channels[at(k)];
      const double rate = rates.rate(channel, Residual::role_of(lanes[lane], k));
      rows[at(channel)][lane] += unit / rate;
      for (const int r : profile.channels[at(channel)].resources) {
        const double capacity = profile.resources[at(r)].bytes_per_second;
        rows[channels + at(r)][lane] += unit / (capacity > 0 ? capacity : rate);
      }
    }
  }
  Flows flows{largest_flow(rows, limits), {}};
  double most = 0;
  // Of those that are used up, a resource says more than one of its channels.
  for (std::size_t row = rows.size(); row > 0; --row) {
    const auto& uses = rows[row - 1];
    const double used = std::inner_product(uses.begin(), uses.end(), flows.rates.begin(), 0.0);
    if (used <= most * (1 + 1e-9)) continue;
    most = used;
    const auto number = static_cast<int>(row - 1);
    const auto first_resource = static_cast<int>(channels);
    flows.binding =
        number < first_resource ? Binding{number, -1} : Binding{-1, number - first_resource};
  }
  for (double& rate : flows.rates) rate *= unit;
  return flows;
}

/// Returns the number of slots of each buffer if all lanes share the budgets evenly.
int slots_of(const Costs& costs, const Task& task, const std::vector<Candidate>& lanes) {
  std::int64_t slots = INT64_MAX;
  const std::int64_t slot =
      std::max(task.source.slot_bytes(lanes[0].tile), task.target.slot_bytes(lanes[0].tile));
  for (const Candidate& lane : lanes) {
    if (lane.path.count < 2) continue;
    const auto sharing = static_cast<std::int64_t>(lanes.size());
    slots = std::min({slots, slots_most, costs.ring_bytes_max(lane.path) / sharing / slot});
  }
  return slots == INT64_MAX ? 0 : static_cast<int>(slots);
}

double fill_of(const Profile& profile, const Costs& costs, const Candidate& lane) {
  double fill_s = 0;
  for (int k = 0; k < lane.path.count; ++k) {
    const ChannelSpec& channel = profile.channels[at(lane.path.channels[at(k)])];
    fill_s += costs.start_s(channel, true) + costs.hop(lane, k).tile_s;
  }
  return fill_s;
}

}  // namespace

std::vector<double> largest_flow(const std::vector<std::vector<double>>& a,
                                 const std::vector<double>& b) {
  const std::size_t rows = a.size();
  const std::size_t columns = rows > 0 ? a[0].size() : 0;
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
  Residual residual(profile, task, costs, best);
  std::vector<Candidate> lanes{best};
  residual.take(best, best.bytes_per_second);
  while (static_cast<int>(lanes.size()) < paths_most) {
    const auto next = WidestPath(graph, residual).find(best);
    if (!next || next->bytes_per_second < lane_share_least * best.bytes_per_second) break;
    residual.take(*next, next->bytes_per_second);
    lanes.push_back(*next);
  }
  const Residual rates(profile, task, costs, best);
  Flows flows;
  while (lanes.size() > 1) {
    flows = flows_of(profile, rates, lanes);
    const auto least = std::min_element(flows.rates.begin() + 1, flows.rates.end());
    const bool too_many = static_cast<int>(lanes.size()) > lanes_max;
    if (!too_many && *least >= lane_share_least * best.bytes_per_second) break;
    lanes.erase(lanes.begin() + (least - flows.rates.begin()));
  }
  if (lanes.size() < 2) return alone;
  LaneChoice choice{lanes, 0, 0, flows.binding};
  double fill_s = 0;
  const int slots = slots_of(costs, task, lanes);
  for (std::size_t k = 0; k < lanes.size(); ++k) {
    if (lanes[k].path.count > 1 && slots < 2) return alone;
    choice.lanes[k].bytes_per_second = flows.rates[k];
    choice.lanes[k].slots = slots;
    choice.bytes_per_second += flows.rates[k];
    fill_s = std::max(fill_s, fill_of(profile, costs, lanes[k]));
  }
  const double rest =
      task.bytes - static_cast<double>(best.tile_bytes) * static_cast<double>(lanes.size());
  if (rest < 0) return alone;
  choice.seconds = fill_s + rest / choice.bytes_per_second;
  return choice.seconds < (1 - lanes_gain_least) * whole.seconds ? choice : alone;
}

}  // namespace tranship
