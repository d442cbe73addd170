// Random machines, layouts, priorities, cancellations and failures on virtual time: every transfer
// ends, no buffer is lost, and no byte is wrong. A failing seed prints the command that replays it.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "channels/sim/sim_channel.hpp"
#include "data/lowering.hpp"
#include "plan/plan.hpp"
#include "runtime/step_driver.hpp"
#include "support/test.hpp"

using namespace tranship;

namespace {

constexpr std::uint64_t seeds = test::seed_count(10000);

struct Copy {
  std::shared_ptr<Transfer> transfer;
  std::vector<std::byte> source;
  std::vector<std::byte> target;
  std::vector<std::byte> expected;
};

Profile random_machine(Random& random) {
  Profile profile;
  const auto memories = random.between(2, 5);
  for (int k = 0; k < memories; ++k) {
    profile.memories.push_back(
        {"node0/host" + std::to_string(k), MemoryKind::host, random.between(20, 200) * 1024});
  }
  const auto resources = random.between(0, 2);
  for (int k = 0; k < resources; ++k) {
    profile.resources.push_back(
        {"wire" + std::to_string(k), 1e9 * static_cast<double>(random.between(1, 5))});
  }
  for (int from = 0; from < memories; ++from) {
    for (int to = 0; to < memories; ++to) {
      if (random.chance(0.4)) continue;
      ChannelSpec channel;
      channel.name = "c" + std::to_string(from) + std::to_string(to);
      channel.kind = random.chance(0.5) ? ChannelKind::memcpy : ChannelKind::remote_write;
      channel.source = from;
      channel.target = to;
      const double peak = 1e8 * static_cast<double>(random.between(1, 100));
      channel.throughput = Throughput({{64, 1, peak / 20},
                                       {1 << 20, 1, peak / 4},
                                       {64, 4096, peak / 10},
                                       {1 << 20, 4096, peak}});
      channel.latency_s = 1e-6 * static_cast<double>(random.below(50));
      if (resources > 0 && random.chance(0.5)) {
        channel.resources.push_back(static_cast<int>(random.below(resources)));
      }
      profile.channels.push_back(channel);
    }
  }
  return profile;
}

Layout random_layout(Random& random, const IndexSpace& space) {
  std::vector<Term> terms{Term{}};
  for (const Dimension& dimension : space) {
    if (random.chance(0.4)) terms.push_back({dimension.name, random.between(1, 6)});
    terms.push_back({dimension.name, 0});
  }
  for (std::size_t k = terms.size(); k > 1; --k) {
    std::swap(terms[k - 1],
              terms[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(k)))]);
  }
  return Layout(terms);
}

std::shared_ptr<Copy> random_copy(Random& random, const Profile& profile) {
  IndexSpace space;
  const auto rank = random.between(1, 3);
  for (int k = 0; k < rank; ++k) {
    space.push_back({std::string(1, static_cast<char>('x' + k)), random.between(1, 60)});
  }
  FieldSpace fields;
  const auto count = random.between(1, 3);
  for (int f = 0; f < count; ++f) {
    fields.push_back({"f" + std::to_string(f), "V", random.between(1, 9)});
  }
  PlanQuery query;
  query.source = View::whole(Mapping::make(space, fields, random_layout(random, space)).value());
  query.target = View::whole(Mapping::make(space, fields, random_layout(random, space)).value());
  const auto memories = static_cast<std::int64_t>(profile.memories.size());
  query.source_memory = static_cast<int>(random.below(memories));
  query.target_memory = static_cast<int>(random.below(memories));
  query.planner = static_cast<PlannerKind>(random.below(5));
  query.lanes_max = static_cast<int>(random.between(1, 3));
  auto made = plan(query, profile);
  if (!made) return nullptr;  // no route, or no room for a tile, is a valid result
  auto copy = std::make_shared<Copy>();
  copy->source.resize(static_cast<std::size_t>(query.source.mapping->end_bytes()));
  for (auto& byte : copy->source) byte = static_cast<std::byte>(random.next());
  copy->target.assign(static_cast<std::size_t>(query.target.mapping->end_bytes()), std::byte{7});
  copy->expected = copy->target;
  std::vector<LoopNest> nests;
  lower({query.source.mapping.get(), {}}, {query.target.mapping.get(), {}}, query.source.extents,
        {}, nests);
  move_bytes(nests, copy->source.data(), copy->expected.data());
  copy->transfer = std::make_shared<Transfer>();
  copy->transfer->plan = std::make_shared<const Plan>(std::move(*made));
  copy->transfer->source.address = copy->source.data();
  copy->transfer->target.address = copy->target.data();
  copy->transfer->priority = static_cast<int>(random.below(3));
  copy->transfer->label = copy->transfer->plan->path(profile);
  for (const Hop& hop : copy->transfer->plan->hops) {
    Descriptor descriptor;
    descriptor.channel = hop.channel;
    copy->transfer->descriptors.push_back(descriptor);
  }
  return copy;
}

/// A simulated machine with its channels and its driver.
struct Simulation {
  Simulation(Random& random, const Profile& profile) : world(profile.resources) {
    const bool failing = random.chance(0.3);
    StepDriver::Options options;
    for (const Memory& memory : profile.memories) {
      options.memories.push_back(
          {memory.buffer_bytes_max,
           {[](std::int64_t bytes) { return new std::byte[static_cast<std::size_t>(bytes)]; },
            [](std::byte* buffer, std::int64_t) { delete[] buffer; }}});
    }
    options.jobs_in_flight_max = static_cast<int>(random.between(1, 6));
    options.clock = &world.clock();
    options.advance = [this] { return world.advance(); };
    driver = std::make_unique<StepDriver>(std::move(options));
    for (const ChannelSpec& spec : profile.channels) {
      SimChannel::Options channel;
      channel.spec = spec;
      channel.failure_probability = failing ? 0.02 : 0;
      channel.jitter = 0.5;
      channel.seed = random.next();
      channel.bytes_in_flight_max = random.chance(0.5) ? random.between(1, 64) * 1024 : 0;
      channels.push_back(std::make_unique<SimChannel>(world, std::move(channel)));
      driver->add_channel(*channels.back());
    }
  }

  SimWorld world;
  std::vector<std::unique_ptr<SimChannel>> channels;
  std::unique_ptr<StepDriver> driver;
};

/// What the runs covered, so that the test fails if it no longer tests these cases.
struct Covered {
  std::int64_t right = 0;
  std::int64_t failed = 0;
  std::int64_t hops = 0;
  std::int64_t pipelined = 0;  ///< several hops and more tiles than slots
  std::int64_t laned = 0;      ///< several lanes
};

/// Runs one seed; returns what was wrong, or an empty text.
std::string run_seed(std::uint64_t seed, Covered& covered) {
  Random random(seed);
  const Profile profile = random_machine(random);
  Simulation simulation(random, profile);
  StepDriver& driver = *simulation.driver;
  std::vector<std::shared_ptr<Copy>> copies;
  const auto wanted = random.between(1, 8);
  for (int k = 0; k < wanted; ++k) {
    auto copy = random_copy(random, profile);
    if (!copy) continue;
    std::vector<std::shared_ptr<Completion>> after;
    if (!copies.empty() && random.chance(0.3)) {
      const auto before = random.below(static_cast<std::int64_t>(copies.size()));
      after.push_back(copies[static_cast<std::size_t>(before)]->transfer->completion);
    }
    copies.push_back(copy);
    driver.submit(copy->transfer, after);
    for (auto steps = random.below(20); steps > 0; --steps) driver.step();
    if (random.chance(0.15)) {
      const auto victim = random.below(static_cast<std::int64_t>(copies.size()));
      driver.cancel(copies[static_cast<std::size_t>(victim)]->transfer,
                    {ErrorCode::cancelled, "cancelled by the test"});
    }
  }
  if (!driver.run()) return "a deadlock: transfers are left and nothing will happen";
  for (std::size_t m = 0; m < profile.memories.size(); ++m) {
    if (driver.buffers().bytes_in_use(static_cast<int>(m)) != 0) return "a buffer was lost";
  }
  for (const auto& copy : copies) {
    if (!copy->transfer->completion->done()) return "an event never ended";
    if (copy->transfer->completion->status() && copy->target != copy->expected) {
      return "wrong bytes along " + copy->transfer->label;
    }
    const Plan& plan = *copy->transfer->plan;
    (copy->transfer->completion->status() ? covered.right : covered.failed) += 1;
    covered.hops += static_cast<std::int64_t>(plan.hops.size());
    covered.pipelined += plan.hops.size() > 1 && plan.tiles > plan.slots ? 1 : 0;
    covered.laned += plan.lanes.size() > 1 ? 1 : 0;
  }
  return "";
}

}  // namespace

TEST(seeded_runs) {
  const auto only = test::argument(2);
  std::uint64_t first = only.empty() ? 0 : std::stoull(only);
  const std::uint64_t last = only.empty() ? seeds : first + 1;
  Covered covered;
  for (; first < last; ++first) {
    const std::string wrong = run_seed(first, covered);
    if (wrong.empty()) continue;
    test::record_failure(__FILE__, __LINE__,
                         wrong + "; replay: test_sim seeded_runs " + std::to_string(first));
    return;
  }
  if (!only.empty()) return;
  constexpr auto runs = static_cast<std::int64_t>(seeds);
  EXPECT(covered.right > runs);
  EXPECT(covered.failed > runs / 10);
  EXPECT(covered.pipelined > runs / 10);
  EXPECT(covered.laned > runs / 200);
  std::printf("%lld right, %lld failed or cancelled, %lld hops, %lld pipelined, %lld in lanes\n",
              static_cast<long long>(covered.right), static_cast<long long>(covered.failed),
              static_cast<long long>(covered.hops), static_cast<long long>(covered.pipelined),
              static_cast<long long>(covered.laned));
}

TEST(priority_goes_first) {
  // One channel has six long copies of low priority, then a short copy of high priority.
  Random random(1);
  Profile profile;
  profile.memories = {{"node0/host0", MemoryKind::host, 0}};
  ChannelSpec spec;
  spec.name = "memcpy";
  spec.throughput = Throughput({{1, 1, 1e9}});
  profile.channels.push_back(spec);
  Simulation simulation(random, profile);
  const auto submit = [&](std::int64_t bytes, int priority) {
    PlanQuery query;
    const IndexSpace space{{"x", bytes}};
    query.source =
        View::whole(Mapping::make(space, {{"f", "u1", 1}}, Layout::parse("F, x").value()).value());
    query.target = query.source;
    auto transfer = std::make_shared<Transfer>();
    transfer->plan = std::make_shared<const Plan>(plan(query, profile).value());
    static std::vector<std::byte> from(1 << 22);
    static std::vector<std::byte> to(1 << 22);
    transfer->source.address = from.data();
    transfer->target.address = to.data();
    transfer->priority = priority;
    transfer->descriptors.resize(1);
    simulation.driver->submit(transfer, {});
    return transfer;
  };
  std::vector<std::shared_ptr<Transfer>> low;
  for (int k = 0; k < 6; ++k) low.push_back(submit(1 << 22, 0));
  simulation.driver->step();
  const auto high = submit(1 << 18, 5);
  const std::int64_t begin_ns = simulation.world.clock().now_ns();
  while (!high->completion->done()) REQUIRE(simulation.driver->step());
  const std::int64_t waited_ns = simulation.world.clock().now_ns() - begin_ns;
  EXPECT(!low.back()->completion->done());
  // The short copy may take its own 262 us and the time of what was in flight before it, out of 25
  // ms.
  EXPECT(waited_ns < 5'000'000);
  EXPECT(simulation.driver->run());
}
