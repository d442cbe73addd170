// Plans of several lanes, made by hand: every tile must arrive, whichever lane carries it.
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "channels/sim/sim_channel.hpp"
#include "runtime/step_driver.hpp"
#include "support/test.hpp"

using namespace tranship;

namespace {

constexpr std::int64_t tile_bytes = 4096;

/// Three memories with channels from 0 to 2, directly and through 1, at the caller's rates.
struct ThreeMemories {
  explicit ThreeMemories(const std::vector<double>& rates) : world({}) {
    StepDriver::Options options;
    for (int k = 0; k < 3; ++k) {
      options.memories.push_back(
          {1 << 20,
           {[](std::int64_t bytes) { return new std::byte[static_cast<std::size_t>(bytes)]; },
            [](std::byte* buffer, std::int64_t) { delete[] buffer; }}});
    }
    options.clock = &world.clock();
    options.advance = [this] { return world.advance(); };
    driver = std::make_unique<StepDriver>(std::move(options));
    for (const double rate : rates) {
      SimChannel::Options channel;
      channel.spec.throughput = Throughput({{1, 1, rate}});
      channels.push_back(std::make_unique<SimChannel>(world, std::move(channel)));
      driver->add_channel(*channels.back(), {0, 2, 1});
    }
  }

  static Hop hop(int channel, int from, int to, std::int64_t source_bytes,
                 std::int64_t target_bytes) {
    const auto mapping = [](std::int64_t bytes) {
      return Mapping::make({{"x", bytes}}, {{"f", "u1", 1}}, Layout::parse("F, x").value()).value();
    };
    Hop one;
    one.channel = channel;
    one.source_memory = from;
    one.target_memory = to;
    one.source = mapping(source_bytes);
    one.target = mapping(target_bytes);
    return one;
  }

  /// Returns a transfer with the direct channel as lane 0, and the two hops as lane 1.
  std::shared_ptr<Transfer> transfer(std::int64_t bytes) {
    auto plan = std::make_shared<Plan>();
    plan->hops = {hop(0, 0, 2, bytes, bytes), hop(1, 0, 1, bytes, tile_bytes),
                  hop(2, 1, 2, tile_bytes, bytes)};
    plan->lanes = {{0, 1, lane_rates[0]}, {1, 2, lane_rates[1], fill_s}};
    plan->bytes = bytes;
    plan->extents[0] = bytes;
    plan->tile[0] = tile_bytes;
    plan->tile_bytes = tile_bytes;
    plan->tiles = (bytes + tile_bytes - 1) / tile_bytes;
    plan->slots = slots;
    source.resize(static_cast<std::size_t>(bytes));
    for (std::size_t k = 0; k < source.size(); ++k) {
      source[k] = static_cast<std::byte>(k * 31 + k / 4096);
    }
    target.assign(source.size(), std::byte{0});
    auto made = std::make_shared<Transfer>();
    made->plan = plan;
    made->source.address = source.data();
    made->target.address = target.data();
    made->descriptors.resize(3);
    for (int k = 0; k < 3; ++k) made->descriptors[static_cast<std::size_t>(k)].channel = k;
    return made;
  }

  std::array<double, 2> lane_rates{0, 0};  ///< the rates that the plan predicts
  double fill_s = 0;                       ///< of lane 1, as the plan predicts it
  int slots = 3;
  SimWorld world;
  std::vector<std::unique_ptr<SimChannel>> channels;
  std::unique_ptr<StepDriver> driver;
  std::vector<std::byte> source;
  std::vector<std::byte> target;
};

}  // namespace

TEST(lanes_share_the_tiles_as_fast_as_they_are) {
  ThreeMemories machine({1e9, 3e9, 3e9});
  const auto one = machine.transfer(400 * tile_bytes);
  machine.driver->submit(one, {});
  REQUIRE(machine.driver->run());
  REQUIRE(one->completion->status().ok());
  EXPECT(machine.target == machine.source);
  // The lanes' shares are 1 to 3, except for the tiles under way at the end.
  EXPECT(std::abs(one->descriptors[0].ended - 100) <= 4);
  EXPECT_EQ(one->descriptors[0].ended + one->descriptors[1].ended, 400);
  EXPECT_EQ(one->descriptors[1].ended, one->descriptors[2].ended);
  const double seconds = static_cast<double>(machine.world.clock().now_ns()) / 1e9;
  EXPECT(seconds < 1.05 * 400 * tile_bytes / 4e9);
}

TEST(a_lane_that_begins_tiles_fast_does_not_keep_them_from_one_that_ends_them_sooner) {
  const auto seconds = [](std::array<double, 2> lane_rates) {
    ThreeMemories machine({1e9, 50e9, 1e9});
    machine.lane_rates = lane_rates;
    machine.slots = 16;
    const auto one = machine.transfer(40 * tile_bytes);
    machine.driver->submit(one, {});
    EXPECT(machine.driver->run());
    EXPECT(machine.target == machine.source);
    return static_cast<double>(machine.world.clock().now_ns()) / 1e9;
  };
  const double least = 20 * tile_bytes / 1e9;
  EXPECT(seconds({1e9, 1e9}) < 1.1 * least);
  // If the plan gives no rates of the lanes, the slots fill first, and the rest is late.
  EXPECT(seconds({0, 0}) > 1.2 * least);
}

TEST(the_last_tile_takes_the_lane_that_ends_it_first) {
  const double tile_s = tile_bytes / 1e9;
  for (const double fill_s : {0.0, 0.9 * tile_s}) {
    ThreeMemories machine({1e9, 1e9, fill_s > 0 ? tile_bytes / fill_s : 1e12});
    machine.lane_rates = {1e9, 1e9};
    machine.fill_s = fill_s;
    const auto one = machine.transfer(5 * tile_bytes);
    machine.driver->submit(one, {});
    REQUIRE(machine.driver->run());
    EXPECT(machine.target == machine.source);
    // Of two equal lanes either may take it; what passes a second hop is later by that hop.
    if (fill_s > 0) EXPECT_EQ(one->descriptors[0].ended, 3);
    EXPECT(static_cast<double>(machine.world.clock().now_ns()) / 1e9 < 3.01 * tile_s);
  }
}

TEST(every_byte_arrives_whichever_lane_carries_it) {
  for (const double direct : {1e6, 1e8, 1e9, 1e11}) {
    for (const double last : {1e7, 1e9, 1e10}) {
      for (const std::int64_t bytes : {1, 4095, 4096, 4097, 50001, 300000}) {
        ThreeMemories machine({direct, 1e9, last});
        machine.lane_rates = {static_cast<double>(bytes % 3) * 1e9, 1e9};
        const auto one = machine.transfer(bytes);
        machine.driver->submit(one, {});
        REQUIRE(machine.driver->run());
        EXPECT(one->completion->status().ok());
        EXPECT(machine.target == machine.source);
        EXPECT_EQ(machine.driver->buffers().bytes_in_use(1), 0);
      }
    }
  }
}

TEST(a_failing_lane_fails_the_transfer_and_gives_everything_back) {
  ThreeMemories machine({1e9, 3e9, 3e9});
  const auto one = machine.transfer(400 * tile_bytes);
  machine.driver->submit(one, {});
  for (int k = 0; k < 50; ++k) machine.driver->step();
  machine.driver->cancel(one, {ErrorCode::cancelled, "cancelled by the test"});
  REQUIRE(machine.driver->run());
  EXPECT(!one->completion->status().ok());
  EXPECT_EQ(machine.driver->buffers().bytes_in_use(1), 0);
}

TEST(a_descriptor_keeps_to_its_own_limit) {
  ThreeMemories machine({1e9, 1e9, 1e9});
  const auto one = machine.transfer(40 * tile_bytes);
  for (Descriptor& descriptor : one->descriptors) descriptor.in_flight_max = 1;
  machine.driver->submit(one, {});
  std::int64_t most = 0;
  while (!one->completion->done()) {
    REQUIRE(machine.driver->step());
    for (const Descriptor& descriptor : one->descriptors) {
      most = std::max(most, descriptor.in_flight);
    }
  }
  EXPECT_EQ(most, 1);
  EXPECT(machine.target == machine.source);
}

TEST(what_is_left_to_do_of_a_hop_is_known) {
  ThreeMemories machine({1e9, 1e9, 1e9});
  const auto one = machine.transfer(2 * tile_bytes);
  EXPECT(one->tiles_left(one->descriptors[2]));
  machine.driver->submit(one, {});
  REQUIRE(machine.driver->run());
  for (const Descriptor& descriptor : one->descriptors) EXPECT(!one->tiles_left(descriptor));
}

TEST(without_data_the_times_are_the_same) {
  const auto end_ns = [](bool with_data) {
    ThreeMemories machine({1e9, 2e9, 3e9});
    StepDriver::Options options;
    options.memories = std::vector<BufferPool::MemoryLimits>(
        3,
        {1 << 20,
         {[&](std::int64_t) { return machine.source.data(); }, [](std::byte*, std::int64_t) {}}});
    options.with_data = false;
    options.advance = [&] { return machine.world.advance(); };
    StepDriver bare(std::move(options));
    for (const auto& channel : machine.channels) bare.add_channel(*channel, {0, 2, 1});
    const auto one = machine.transfer(100 * tile_bytes);
    StepDriver& driver = with_data ? *machine.driver : bare;
    driver.submit(one, {});
    EXPECT(driver.run());
    EXPECT_EQ(driver.requests_ended(), 100 + one->descriptors[2].ended);
    return machine.world.clock().now_ns();
  };
  EXPECT_EQ(end_ns(true), end_ns(false));
}
