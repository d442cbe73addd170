// Lanes, compared with the largest flow over all paths together.
#include "plan/lanes.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/at.hpp"
#include "base/random.hpp"
#include "plan/cache.hpp"
#include "plan/plan.hpp"
#include "support/test.hpp"

using namespace tranship;

namespace {

double unit(Random& random) { return static_cast<double>(random.below(1 << 20)) / (1 << 20); }

using Rows = std::vector<std::vector<double>>;

/// Returns the solution of a square system, or nothing unless it has exactly one.
std::optional<std::vector<double>> solve(Rows rows, std::vector<double> right) {
  const std::size_t n = rows.size();
  for (std::size_t c = 0; c < n; ++c) {
    std::size_t pivot = c;
    for (std::size_t r = c; r < n; ++r) {
      if (std::abs(rows[r][c]) > std::abs(rows[pivot][c])) pivot = r;
    }
    if (std::abs(rows[pivot][c]) < 1e-9) return std::nullopt;
    std::swap(rows[c], rows[pivot]);
    std::swap(right[c], right[pivot]);
    for (std::size_t r = 0; r < n; ++r) {
      if (r == c) continue;
      const double factor = rows[r][c] / rows[c][c];
      for (std::size_t k = 0; k < n; ++k) rows[r][k] -= factor * rows[c][k];
      right[r] -= factor * right[c];
    }
  }
  for (std::size_t c = 0; c < n; ++c) right[c] /= rows[c][c];
  return right;
}

bool feasible(const Rows& a, const std::vector<double>& b, const std::vector<double>& x) {
  for (const double value : x) {
    if (value < -1e-9) return false;
  }
  for (std::size_t r = 0; r < a.size(); ++r) {
    double sum = 0;
    for (std::size_t k = 0; k < x.size(); ++k) sum += a[r][k] * x[k];
    if (sum > b[r] + 1e-9) return false;
  }
  return true;
}

/// Returns the largest sum at any corner, where as many limits meet as there are variables.
double largest_corner(const Rows& a, const std::vector<double>& b) {
  const std::size_t n = a[0].size();
  double largest = 0;
  for (unsigned chosen = 0; chosen < (1u << (a.size() + n)); ++chosen) {
    if (static_cast<std::size_t>(__builtin_popcount(chosen)) != n) continue;
    Rows rows;
    std::vector<double> right;
    for (std::size_t k = 0; k < a.size() + n; ++k) {
      if ((chosen >> k & 1u) == 0) continue;
      std::vector<double> row(n, 0);
      if (k < a.size()) {
        row = a[k];
      } else {
        row[k - a.size()] = 1;
      }
      rows.push_back(row);
      right.push_back(k < a.size() ? b[k] : 0);
    }
    const auto x = solve(rows, right);
    if (!x || !feasible(a, b, *x)) continue;
    double sum = 0;
    for (const double value : *x) sum += value;
    largest = std::max(largest, sum);
  }
  return largest;
}

ChannelSpec channel(const std::string& name, ChannelKind kind, int source, int target,
                    double rate) {
  ChannelSpec spec;
  spec.name = name;
  spec.kind = kind;
  spec.source = source;
  spec.target = target;
  spec.throughput = Throughput({{1 << 20, 1 << 20, rate}});
  spec.latency_s = 1e-6;
  return spec;
}

PlanQuery stream_of(std::int64_t bytes, int source, int target) {
  const auto mapping =
      Mapping::make({{"x", bytes / 8}}, {{"f", "f8", 8}}, Layout::parse("F, x").value()).value();
  PlanQuery query;
  query.source = View::whole(mapping);
  query.target = View::whole(mapping);
  query.source_memory = source;
  query.target_memory = target;
  query.planner = PlannerKind::full;
  return query;
}

Profile random_machine(Random& random) {
  Profile profile;
  const int memories = static_cast<int>(random.between(3, 5));
  for (int k = 0; k < memories; ++k) {
    profile.memories.push_back(
        {"m" + std::to_string(k), MemoryKind::device, random.chance(0.1) ? 0 : 1 << 30});
  }
  for (int k = 0; k < random.between(0, 3); ++k) {
    profile.resources.push_back(
        {"r" + std::to_string(k), random.chance(0.3) ? 0 : 1e10 * std::exp2(2 * unit(random))});
  }
  for (int source = 0; source < memories; ++source) {
    for (int target = 0; target < memories; ++target) {
      if (source == target || !random.chance(0.6)) continue;
      auto one = channel("c" + std::to_string(profile.channels.size()), ChannelKind::gpu_peer,
                         source, target, 1e10 * std::exp2(3 * unit(random)));
      for (std::size_t r = 0; r < profile.resources.size(); ++r) {
        if (random.chance(0.3)) one.resources.push_back(static_cast<int>(r));
      }
      profile.channels.push_back(one);
    }
  }
  return profile;
}

/// Returns every path that visits no memory twice.
void all_paths(const Profile& profile, int target, std::vector<int>& memories,
               std::vector<int>& channels, std::vector<std::vector<int>>& found) {
  for (std::size_t c = 0; c < profile.channels.size(); ++c) {
    const ChannelSpec& spec = profile.channels[c];
    if (spec.source != memories.back()) continue;
    if (std::find(memories.begin(), memories.end(), spec.target) != memories.end()) continue;
    channels.push_back(static_cast<int>(c));
    if (spec.target == target) {
      found.push_back(channels);
    } else if (profile.memories[at(spec.target)].buffer_bytes_max > 0) {
      memories.push_back(spec.target);
      all_paths(profile, target, memories, channels, found);
      memories.pop_back();
    }
    channels.pop_back();
  }
}

/// Returns the share of each channel and resource that a byte per second of a path uses.
std::vector<double> use_of(const Profile& profile, const std::vector<int>& channels) {
  std::vector<double> use(profile.channels.size() + profile.resources.size(), 0);
  for (const int c : channels) {
    const ChannelSpec& spec = profile.channels[at(c)];
    use[at(c)] += 1 / spec.throughput.peak();
    for (const int r : spec.resources) {
      const double capacity = profile.resources[at(r)].bytes_per_second;
      use[profile.channels.size() + at(r)] +=
          1 / (capacity > 0 ? capacity : spec.throughput.peak());
    }
  }
  return use;
}

/// Returns the largest rate of all paths together.
double largest_rate(const Profile& profile, int source, int target) {
  std::vector<int> memories{source};
  std::vector<int> channels;
  std::vector<std::vector<int>> paths;
  all_paths(profile, target, memories, channels, paths);
  constexpr double scale = 1e10;
  Rows rows(profile.channels.size() + profile.resources.size(),
            std::vector<double>(paths.size(), 0));
  for (std::size_t p = 0; p < paths.size(); ++p) {
    const auto use = use_of(profile, paths[p]);
    for (std::size_t r = 0; r < rows.size(); ++r) rows[r][p] = use[r] * scale;
  }
  if (paths.empty()) return 0;
  double sum = 0;
  for (const double flow : largest_flow(rows, std::vector<double>(rows.size(), 1))) sum += flow;
  return sum * scale;
}

/// Returns whether the lanes' rates are within the limits of every channel and resource.
bool keeps_to_limits(const Plan& plan, const Profile& profile) {
  std::vector<double> used(profile.channels.size() + profile.resources.size(), 0);
  for (const Lane& lane : plan.lanes) {
    std::vector<int> channels;
    for (int k = 0; k < lane.hop_count; ++k) {
      channels.push_back(plan.hops[at(lane.first_hop + k)].channel);
    }
    const auto use = use_of(profile, channels);
    for (std::size_t r = 0; r < used.size(); ++r) used[r] += use[r] * lane.bytes_per_second;
  }
  return std::all_of(used.begin(), used.end(), [](double one) { return one <= 1 + 1e-9; });
}

/// Returns a node with GPUs, each with a PCIe link of its own.
Profile node_of(int devices) {
  Profile profile;
  profile.memories.push_back({"node0/pinned0", MemoryKind::pinned, 1 << 30});
  profile.resources.push_back({"host memory", 179e9});
  for (int k = 0; k < devices; ++k) {
    const std::string name = "node0/device" + std::to_string(k);
    profile.memories.push_back({name, MemoryKind::device, 1 << 30});
    auto write = channel("gpu_write " + name, ChannelKind::gpu_write, 0, k + 1, 55.4e9);
    write.resources = {0};
    profile.channels.push_back(write);
    for (int peer = 0; peer < devices; ++peer) {
      if (peer == k) continue;
      profile.channels.push_back(channel("gpu_peer " + std::to_string(k) + std::to_string(peer),
                                         ChannelKind::gpu_peer, k + 1, peer + 1, 396e9));
    }
  }
  return profile;
}

}  // namespace

TEST(the_largest_flow_is_that_of_the_best_corner) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    const auto columns = static_cast<std::size_t>(random.between(1, 4));
    const auto count = static_cast<std::size_t>(random.between(1, 5));
    Rows rows(count, std::vector<double>(columns, 0));
    std::vector<double> limits;
    for (auto& row : rows) {
      limits.push_back(random.chance(0.1) ? 0 : 1 + 4 * unit(random));
      for (double& value : row) value = random.chance(0.4) ? 0 : 0.1 + unit(random);
    }
    // Some limit bounds each variable.
    for (std::size_t c = 0; c < columns; ++c) rows[0][c] = 0.1 + unit(random);
    const std::vector<double> flow = largest_flow(rows, limits);
    double sum = 0;
    for (const double value : flow) sum += value;
    const bool right =
        feasible(rows, limits, flow) && std::abs(sum - largest_corner(rows, limits)) < 1e-6;
    if (right) continue;
    test::record_failure(__FILE__, __LINE__,
                         "seed " + std::to_string(seed) + ": " + std::to_string(sum) + " against " +
                             std::to_string(largest_corner(rows, limits)));
  }
}

TEST(lanes_carry_nearly_what_all_paths_together_could) {
  constexpr std::uint64_t machines = 2000;
  const std::string only = test::argument(2);
  int count = 0;
  int several = 0;
  int below = 0;
  double least = 1;
  for (std::uint64_t seed = 0; seed < machines; ++seed) {
    if (!only.empty() && seed != std::stoull(only)) continue;
    Random random(seed);
    const Profile profile = random_machine(random);
    PlanQuery query = stream_of(std::int64_t{1} << 32, 0, 1);
    query.lanes_max = 8;
    const auto made = plan(query, profile);
    if (!made) continue;
    ++count;
    several += made->lanes.size() > 1 ? 1 : 0;
    const double share = made->bytes_per_second / largest_rate(profile, 0, 1);
    least = std::min(least, share);
    // The planner ignores paths with less than a fifth of the first path's rate, and several add
    // up.
    below += share < 0.75 ? 1 : 0;
    if (!only.empty()) std::printf("%.3f\n%s", share, explain(*made, profile).c_str());
    if (share <= 1 + 1e-9 && keeps_to_limits(*made, profile)) continue;
    test::record_failure(__FILE__, __LINE__,
                         "seed " + std::to_string(seed) + ": " + std::to_string(share) +
                             " of what is possible\n" + explain(*made, profile));
  }
  std::printf("lanes: %d plans, %d of several, %d below 0.75 of the largest rate, least %.2f\n",
              count, several, below, least);
  EXPECT(several > 0);
  EXPECT(below * 20 <= count);
}

TEST(a_neighbours_link_doubles_the_rate_to_one_device) {
  for (const auto& [devices, rate] : {std::pair{1, 55.4e9}, {2, 110.8e9}, {4, 179e9}}) {
    const Profile profile = node_of(devices);
    PlanQuery query = stream_of(std::int64_t{1} << 32, 0, 1);
    query.lanes_max = 4;
    const Plan made = plan(query, profile).value();
    EXPECT_EQ(made.lanes.size(), at(devices));
    EXPECT(std::abs(made.bytes_per_second / rate - 1) < 0.01);
    query.lanes_max = 1;
    EXPECT_EQ(plan(query, profile).value().lanes.size(), 1u);
  }
}

TEST(no_more_lanes_than_allowed_and_none_for_little) {
  const Profile profile = node_of(4);
  PlanQuery query = stream_of(std::int64_t{1} << 32, 0, 1);
  query.lanes_max = 2;
  const Plan two = plan(query, profile).value();
  EXPECT_EQ(two.lanes.size(), 2u);
  EXPECT(std::abs(two.bytes_per_second / 110.8e9 - 1) < 0.01);
  PlanQuery little = stream_of(1 << 16, 0, 1);
  little.lanes_max = 4;
  EXPECT_EQ(plan(little, profile).value().lanes.size(), 1u);
}

TEST(lanes_over_one_link_are_none) {
  Profile profile = node_of(4);
  profile.resources.push_back({"one link", 56e9});
  for (ChannelSpec& spec : profile.channels) {
    if (spec.kind == ChannelKind::gpu_write) spec.resources.push_back(1);
  }
  PlanQuery query = stream_of(std::int64_t{1} << 32, 0, 1);
  query.lanes_max = 4;
  EXPECT_EQ(plan(query, profile).value().lanes.size(), 1u);
}

namespace {

/// Returns whether a lane of the plan uses a channel.
bool uses(const Plan& plan, const Lane& lane, int channel) {
  const auto begin = plan.hops.begin() + lane.first_hop;
  return std::any_of(begin, begin + lane.hop_count,
                     [&](const Hop& hop) { return hop.channel == channel; });
}

}  // namespace

TEST(lanes_leave_out_closed_channels) {
  const Profile profile = node_of(4);
  PlanQuery query = stream_of(std::int64_t{1} << 32, 0, 1);
  query.lanes_max = 4;
  for (int k = 1; k < 4; ++k) {
    for (std::size_t c = 0; c < profile.channels.size(); ++c) {
      const ChannelSpec& spec = profile.channels[c];
      if (spec.kind != ChannelKind::gpu_write || spec.target != k + 1) continue;
      query.closed_channels.push_back(static_cast<int>(c));
    }
    const Plan made = plan(query, profile).value();
    EXPECT_EQ(made.lanes.size(), at(4 - k));
    EXPECT_EQ(made.hops[0].channel, 0);  // its own link
    const std::string text = explain(made, profile);
    const auto named = "left to other processes: gpu_write node0/device1";
    EXPECT(text.find(named) != std::string::npos);
  }
  query.closed_channels = {0};
  EXPECT_EQ(plan(query, profile).value().hops[0].channel, 0);
  query.closed_channels = {1000};
  EXPECT(!plan(query, profile).ok());
}

TEST(only_the_first_lane_uses_closed_channels_of_any_machine) {
  int several = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Random random(seed);
    const Profile profile = random_machine(random);
    PlanQuery query = stream_of(std::int64_t{1} << 32, 0, 1);
    query.lanes_max = 8;
    const auto open = plan(query, profile);
    if (!open) continue;
    for (std::size_t c = 0; c < profile.channels.size(); ++c) {
      if (random.chance(0.3)) query.closed_channels.push_back(static_cast<int>(c));
    }
    const Plan made = plan(query, profile).value();
    several += made.lanes.size() > 1 ? 1 : 0;
    EXPECT(made.path(profile) == open->path(profile));
    for (std::size_t lane = 1; lane < made.lanes.size(); ++lane) {
      for (const int channel : query.closed_channels) {
        EXPECT(!uses(made, made.lanes[lane], channel));
      }
    }
    EXPECT(keeps_to_limits(made, profile));
  }
  EXPECT(several > 0);
}

TEST(the_cache_keeps_plans_for_other_closed_channels_apart) {
  const Profile profile = node_of(4);
  PlanCache cache;
  PlanQuery query = stream_of(std::int64_t{1} << 32, 0, 1);
  query.lanes_max = 4;
  const auto add = [&](const PlanQuery& one) {
    cache.add(one, std::make_shared<const Plan>(plan(one, profile).value()));
  };
  PlanQuery closed = query;
  closed.closed_channels = {4};
  add(query);
  EXPECT(cache.find(closed) == nullptr);
  add(closed);
  EXPECT_EQ(cache.find(query)->lanes.size(), 4u);
  EXPECT_EQ(cache.find(closed)->lanes.size(), 3u);
  closed.closed_channels = {4, 8};
  EXPECT(cache.find(closed) == nullptr);
}
