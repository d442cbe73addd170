#include "plan/simulated.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <memory>
#include <sstream>

#include "base/at.hpp"
#include "channels/sim/sim_channel.hpp"
#include "machine/cluster.hpp"
#include "plan/cost.hpp"
#include "runtime/buffer_pool.hpp"
#include "runtime/step_driver.hpp"
#include "support/test.hpp"

namespace tranship::test {
namespace {

/// Address of all simulated buffers. It is never accessed.
std::byte token{};

Scheduler::ChannelLimits limits_of(const ChannelSpec& spec) {
  const double bytes = std::ceil(2 * spec.throughput.peak() * spec.latency_s);
  return {static_cast<std::int64_t>(bytes) + 1, 64, 2};
}

void add_point(std::vector<Point>& points, const Point& point) {
  if (std::find(points.begin(), points.end(), point) == points.end()) points.push_back(point);
}

}  // namespace

Profile machine_of(const std::string& name) {
  std::ifstream file(std::string(TRANSHIP_SOURCE_DIR) + "/machines/" + name + ".json");
  std::ostringstream text;
  text << file.rdbuf();
  const auto profile = Profile::from_json(text.str());
  REQUIRE(profile.ok());
  if (profile->nodes < 2) return *profile;
  const std::array<int, 2> nodes{0, 1};
  return Cluster::make(*profile).value().neighbourhood(nodes).value();
}

double simulated_s(const Plan& plan, const Profile& profile) {
  SimWorld world(profile.resources);
  StepDriver::Options options;
  for (const Memory& memory : profile.memories) {
    options.memories.push_back(
        {memory.buffer_bytes_max,
         {[](std::int64_t) { return &token; }, [](std::byte*, std::int64_t) {}}});
  }
  options.clock = &world.clock();
  options.with_data = false;
  options.advance = [&world] { return world.advance(); };
  std::vector<std::unique_ptr<SimChannel>> channels;
  StepDriver driver(std::move(options));
  std::vector<int> numbers(profile.channels.size(), -1);
  auto transfer = std::make_shared<Transfer>();
  transfer->plan = std::make_shared<const Plan>(plan);
  transfer->descriptors.resize(plan.hops.size());
  for (std::size_t k = 0; k < plan.hops.size(); ++k) {
    int& number = numbers[at(plan.hops[k].channel)];
    if (number < 0) {
      SimChannel::Options channel;
      channel.spec = profile.channels[at(plan.hops[k].channel)];
      const auto limits = limits_of(channel.spec);
      channels.push_back(std::make_unique<SimChannel>(world, std::move(channel)));
      number = driver.add_channel(*channels.back(), limits);
    }
    transfer->descriptors[k].channel = number;
  }
  driver.submit(transfer, {});
  REQUIRE(driver.run());
  REQUIRE(transfer->completion->status().ok());
  return static_cast<double>(world.clock().now_ns()) / 1e9;
}

std::vector<Point> tiles_of(const PlanQuery& query, const Profile& profile, const Plan& plan,
                            std::int64_t tiles_most) {
  const Task task(query, true);
  const Throughput& first = profile.channels[at(plan.hops.front().channel)].throughput;
  const Throughput& last =
      profile.channels[at(plan.hops[at(plan.lanes[0].hop_count - 1)].channel)].throughput;
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = std::int64_t{256} << 10; size <= std::int64_t{64} << 20; size *= 2) {
    sizes.push_back(size);
  }
  for (const std::int64_t parts : {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64}) {
    sizes.push_back(std::min(query.source.bytes() / parts + 1, std::int64_t{64} << 20));
  }
  std::vector<Point> tiles;
  for (const std::int64_t size : sizes) {
    if (size > query.source.bytes() + 1) continue;
    for (const Point& tile :
         {choose_tile({&task.source, &first}, {&task.target, &last}, task.extents, size).tile,
          choose_even_tile(task.source, task.target, task.extents, size)}) {
      if (tile_count(task.extents, tile, task.rank) <= tiles_most) add_point(tiles, tile);
    }
  }
  return tiles;
}

Plan with_tile(const Plan& plan, const PlanQuery& query, const Profile& profile,
               const Point& tile) {
  Plan changed = plan;
  changed.extents = query.source.extents;
  changed.bytes = query.source.bytes();
  const Graph graph(profile);
  const Task task(query, true);
  const Costs costs(graph, task);
  for (const Lane& lane : changed.lanes) {
    changed.hops[at(lane.first_hop)].source = query.source.mapping;
    changed.hops[at(lane.first_hop + lane.hop_count - 1)].target = query.target.mapping;
    for (int k = 0; k < lane.hop_count; ++k) {
      Hop& hop = changed.hops[at(lane.first_hop + k)];
      const HopCost cost =
          costs.hop(hop.channel, {k == 0, k + 1 == lane.hop_count, hop.converts}, tile);
      hop.run_bytes = cost.run_bytes;
      hop.tile_s = cost.tile_s;
    }
  }
  retile(changed, tile);
  std::vector<std::int64_t> rings(profile.memories.size(), 0);
  for (const Lane& lane : changed.lanes) {
    for (int k = lane.first_hop; k + 1 < lane.first_hop + lane.hop_count; ++k) {
      ++rings[at(changed.hops[at(k)].target_memory)];
    }
  }
  for (std::size_t k = 0; k < rings.size(); ++k) {
    if (rings[k] == 0) continue;
    // A page more, since slots are whole pages.
    const std::int64_t slot = changed.tile_bytes + BufferPool::page_bytes;
    const std::int64_t fit = profile.memories[k].buffer_bytes_max / (rings[k] * slot);
    changed.slots = std::min(changed.slots, static_cast<int>(fit));
  }
  for (Hop& hop : changed.hops) {
    hop.bytes_per_second = static_cast<double>(changed.tile_bytes) / hop.tile_s;
  }
  return changed;
}

}  // namespace tranship::test
