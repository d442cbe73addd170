// Simulated time, its queue, and the resources that channels share.
#include <algorithm>
#include <array>
#include <cmath>
#include <queue>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "channels/sim/sim_channel.hpp"
#include "channels/sim/time_queue.hpp"
#include "support/test.hpp"

using namespace tranship;

namespace {

ChannelSpec spec_of(double bytes_per_second, std::vector<int> resources) {
  ChannelSpec spec;
  spec.throughput = Throughput({{1, 1, bytes_per_second}});
  spec.resources = std::move(resources);
  return spec;
}

/// Keeps two requests of `bytes` in flight on each channel until `total` have ended on it.
double run_all(SimWorld& world, std::vector<SimChannel*> channels, std::int64_t bytes, int total) {
  std::vector<int> left(channels.size(), total);
  Request request;
  request.bytes = bytes;
  request.run_bytes = bytes;
  for (std::size_t k = 0; k < channels.size(); ++k) {
    for (int two = 0; two < 2; ++two) (void)channels[k]->submit(request);
  }
  while (const auto number = world.advance()) {
    const auto k = static_cast<std::size_t>(
        std::find_if(channels.begin(), channels.end(),
                     [&](const SimChannel* c) { return c->number() == *number; }) -
        channels.begin());
    std::array<Finished, 4> finished;
    for (std::size_t n = channels[k]->poll(finished); n > 0; --n) {
      if (--left[k] >= 2) (void)channels[k]->submit(request);
    }
  }
  return static_cast<double>(world.clock().now_ns()) / 1e9;
}

}  // namespace

TEST(times_come_out_in_order) {
  Random random(3);
  TimeQueue queue;
  std::priority_queue<std::int64_t, std::vector<std::int64_t>, std::greater<>> oracle;
  std::int64_t now = 0;
  for (int step = 0; step < 200000; ++step) {
    if (oracle.empty() || random.chance(0.52)) {
      const std::int64_t time = now + (random.below(std::int64_t{1} << random.below(40)));
      queue.push(time, step);
      oracle.push(time);
      continue;
    }
    const auto out = queue.pop();
    REQUIRE(out.has_value());
    EXPECT_EQ(out->time_ns, oracle.top());
    now = out->time_ns;
    oracle.pop();
    REQUIRE(queue.size() == oracle.size());
  }
  while (queue.pop()) oracle.pop();
  EXPECT(oracle.empty());
  queue.push(0, 1);  // a time in the past counts as now
  EXPECT(queue.pop()->time_ns >= now);
}

TEST(a_resource_is_shared_and_never_exceeded) {
  SimWorld world({{"wire", 1e9}});
  SimChannel a(world, {spec_of(1e9, {0}), nullptr, {}, 0, 0, 0, 0});
  SimChannel b(world, {spec_of(4e9, {0}), nullptr, {}, 0, 0, 0, 0});
  const double seconds = run_all(world, {&a, &b}, 1'000'000, 50);
  EXPECT(std::abs(seconds - 0.1) < 0.003);
}

TEST(a_slow_channel_leaves_a_fast_wire_to_others) {
  SimWorld world({{"wire", 10e9}});
  SimChannel slow(world, {spec_of(0.1e9, {0}), nullptr, {}, 0, 0, 0, 0});
  SimChannel fast(world, {spec_of(9e9, {0}), nullptr, {}, 0, 0, 0, 0});
  Request request;
  request.bytes = 1'000'000;
  request.run_bytes = request.bytes;
  for (int k = 0; k < 2; ++k) (void)slow.submit(request);  // 10 ms each
  (void)fast.submit(request);
  std::array<Finished, 1> finished;
  while (fast.poll(finished) == 0) REQUIRE(world.advance().has_value());
  EXPECT(world.clock().now_ns() <
         400'000);  // its own 0.11 ms, and 0.2 ms of the wire for the others
}

TEST(channels_of_a_resource_without_capacity_take_turns) {
  SimWorld world({{"cores", 0}});
  SimChannel a(world, {spec_of(1e9, {0}), nullptr, {}, 0, 0, 0, 0});
  SimChannel b(world, {spec_of(2e9, {0}), nullptr, {}, 0, 0, 0, 0});
  // There are 50 requests of 1 ms and 50 of 0.5 ms, never two at once.
  const double seconds = run_all(world, {&a, &b}, 1'000'000, 50);
  EXPECT(std::abs(seconds - 0.075) < 0.001);
}

TEST(many_requests_in_flight_end_in_their_order) {
  SimWorld world({});
  ChannelSpec spec = spec_of(1e9, {});
  spec.latency_s = 1e-3;
  SimChannel channel(world, {spec, nullptr, {}, 0, 0, 0, 0});
  Request request;
  request.bytes = 1000;
  for (std::uint64_t tag = 0; tag < 100; ++tag) {
    request.tag = tag;
    (void)channel.submit(request);
  }
  std::uint64_t next = 0;
  std::array<Finished, 3> finished;
  while (world.advance()) {
    const std::size_t count = channel.poll(finished);
    for (std::size_t k = 0; k < count; ++k) EXPECT_EQ(finished[k].tag, next++);
  }
  EXPECT_EQ(next, 100u);
  EXPECT_EQ(world.clock().now_ns(), 1'100'000);  // latencies overlap
}

TEST(a_file_channel_that_converts_takes_the_plans_word) {
  SimWorld world({});
  ChannelSpec spec = spec_of(1e9, {});
  spec.kind = ChannelKind::file_write;
  SimChannel channel(world, {spec, nullptr, {}, 0, 0, 0, 0});
  Request request;
  request.bytes = 1'000'000;
  request.run_bytes = request.bytes;
  request.converts_bytes_per_second = 0.5e9;
  (void)channel.submit(request);
  EXPECT(world.advance() == channel.number());
  EXPECT_EQ(world.clock().now_ns(), 2'000'000);
}
