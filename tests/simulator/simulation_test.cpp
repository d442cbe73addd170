#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "simulator/cluster.hpp"

using namespace tranship;
using namespace tranship::test;

namespace {

constexpr std::int64_t MB = 1'000'000;

bool near(double value, double wanted, double tolerance) {
  return std::abs(value - wanted) <= tolerance * wanted;
}

int add(Simulation& simulation, const Simulation::Copy& copy, const Simulation::When& when = {}) {
  auto number = simulation.copy(copy, when);
  if (!number) throw CaseEnded(number.error().text());
  return *number;
}

double took(const Simulation& simulation, int task) {
  return simulation.end_s(task) - simulation.begin_s(task);
}

std::string refusal(const Result<int>& result) {
  return result ? "accepted" : result.error().text();
}

bool says(const std::string& text, const char* what) {
  return text.find(what) != std::string::npos;
}

}  // namespace

TEST(a_copy_inside_a_node_takes_its_channels_time) {
  auto simulation = simulation_of(1);
  const int task = add(*simulation, copy_of("node0/device0", "node0/host0", 400 * MB));
  EXPECT(simulation->end_s(task) < 0);
  REQUIRE(simulation->run({}).ok());
  EXPECT(near(took(*simulation, task), 0.1, 0.01));
  EXPECT_EQ(simulation->statistics().bytes, 400 * MB);
  EXPECT(simulation->statistics().events > 0);
}

TEST(hops_between_nodes_overlap) {
  auto simulation = simulation_of(4);
  Simulation::Copy copy = copy_of("node2/device0", "node3/device0", 200 * MB);
  copy.planner = PlannerKind::full;
  const int task = add(*simulation, copy);
  REQUIRE(simulation->run({}).ok());
  EXPECT(near(took(*simulation, task), 0.2, 0.05));  // the time of the wire alone
  const std::string plan = simulation->plan_json(task).value();
  EXPECT(says(plan, "node2/device0 > node2/registered0 > node3/registered0 > node3/device0"));
}

TEST(whole_copies_go_hop_after_hop_where_their_instances_fit) {
  auto simulation = simulation_of(2, 1);
  Simulation::Copy copy = copy_of("node0/device0", "node1/device0", 200 * MB);
  copy.whole = true;
  const int large = add(*simulation, copy);
  copy = copy_of("node0/device0", "node1/device0", 4 * MB);
  copy.whole = true;
  copy.through = {"node0/device0", "node0/registered0", "node1/registered0", "node1/device0"};
  const int small = add(*simulation, copy, {{large}, 0});
  REQUIRE(simulation->run({}).ok());
  // 200 MB exceed the registered memory, so they go through host memory: 0.05 s + 0.4 s + 0.05 s.
  EXPECT(near(took(*simulation, large), 0.5, 0.01));
  EXPECT(says(simulation->plan_json(large).value(), "node0/host0"));
  EXPECT(near(took(*simulation, small), 0.006, 0.05));
}

TEST(instances_wait_for_room_and_come_back) {
  auto simulation = simulation_of(2, 8);
  Simulation::Copy copy = copy_of("node0/device0", "node1/device0", 600 * MB);
  copy.whole = true;
  std::vector<int> tasks;
  for (int k = 0; k < 4; ++k) tasks.push_back(add(*simulation, copy));
  REQUIRE(simulation->run({}).ok());
  // Each host's budget of 1 GiB holds one instance, so the next copy reads when the wire is done.
  EXPECT(near(simulation->end_s(tasks[0]), 1.5, 0.01));
  EXPECT(near(simulation->end_s(tasks[3]), 4 * 1.5, 0.11));
  for (std::size_t k = 1; k < tasks.size(); ++k) {
    EXPECT(simulation->end_s(tasks[k]) > simulation->end_s(tasks[k - 1]));
  }
}

TEST(copiers_share_a_channel_and_bound_what_is_in_progress) {
  const auto last_end = [](int copiers, int priority) {
    auto simulation = simulation_of(1, copiers);
    Simulation::Copy copy = copy_of("node0/device0", "node0/host0", 400 * MB);
    copy.whole = true;
    for (int k = 0; k < 3; ++k) add(*simulation, copy);
    copy.priority = priority;
    const int last = add(*simulation, copy, {{}, 0.01});
    if (!simulation->run({})) return -1.0;
    return simulation->end_s(last);
  };
  EXPECT(near(last_end(1, 0), 0.4, 0.02));  // the copy waits for its turn
  EXPECT(near(last_end(1, 5), 0.2, 0.02));  // it goes next after the copy under way
  EXPECT(near(last_end(4, 5), 0.4, 0.02));  // all copies share the channel, whatever their priority
}

TEST(priority_goes_first_without_copiers) {
  auto simulation = simulation_of(1);
  for (int k = 0; k < 4; ++k) add(*simulation, copy_of("node0/device0", "node0/host0", 400 * MB));
  Simulation::Copy urgent = copy_of("node0/device0", "node0/host0", 40 * MB);
  urgent.priority = 5;
  const int task = add(*simulation, urgent, {{}, 0.15});
  REQUIRE(simulation->run({}).ok());
  EXPECT(took(*simulation, task) < 0.015);
}

TEST(channels_over_one_wire_share_it) {
  auto simulation = simulation_of(3);
  const int one = add(*simulation, copy_of("node0/registered0", "node2/registered0", 100 * MB));
  const int two = add(*simulation, copy_of("node1/registered0", "node2/registered0", 100 * MB));
  REQUIRE(simulation->run({}).ok());
  EXPECT(near(simulation->end_s(one), 0.2, 0.05));  // both go into node2's card
  EXPECT(near(simulation->end_s(two), 0.2, 0.05));
}

TEST(tasks_follow_each_other_and_places_take_turns) {
  auto simulation = simulation_of(1);
  const int first = simulation->compute("node0/device0", 2.0, {}).value();
  const int second = simulation->compute("node0/device0", 1.0, {}).value();
  const int elsewhere = simulation->compute("node0/host0", 1.0, {}).value();
  const int after = simulation->compute("node0/host0", 0.5, {{first, elsewhere}, 0}).value();
  const int late = simulation->compute("late", 0, {{elsewhere}, 7.5}).value();
  REQUIRE(simulation->run({}).ok());
  EXPECT_EQ(simulation->begin_s(second), 2.0);
  EXPECT_EQ(simulation->end_s(second), 3.0);
  EXPECT_EQ(simulation->end_s(after), 2.5);
  EXPECT_EQ(simulation->end_s(late), 7.5);
  const int more = simulation->compute("late", 1.0, {{late, second}, 0}).value();
  REQUIRE(simulation->run({}).ok());
  EXPECT_EQ(simulation->end_s(more), 8.5);
}

TEST(a_run_can_be_broken_off_and_taken_up) {
  auto simulation = simulation_of(2);
  const int task = add(*simulation, copy_of("node0/host0", "node1/host0", 80000 * MB));
  const Status status = simulation->run([] { return false; });
  REQUIRE(!status.ok());
  EXPECT(status.error().code == ErrorCode::cancelled);
  EXPECT(says(status.error().text(), "run it again"));
  EXPECT(simulation->end_s(task) < 0);
  REQUIRE(simulation->run([] { return true; }).ok());
  EXPECT(simulation->end_s(task) > 0);
  auto left = simulation_of(2, 1);
  Simulation::Copy copy = copy_of("node0/device0", "node1/device0", 900 * MB);
  copy.whole = true;
  for (int k = 0; k < 100; ++k) add(*left, copy);
  EXPECT(!left->run([] { return false; }).ok());
  left.reset();  // the simulation frees the copies that have not ended
}

TEST(plans_are_made_once_for_a_class_of_copies) {
  auto simulation = simulation_of(64);
  for (int node = 0; node < 64; ++node) {
    const std::string from = "node" + std::to_string(node) + "/device0";
    const std::string to = "node" + std::to_string((node + 1) % 64) + "/device0";
    add(*simulation, copy_of(from, to, 64 * MB));
    add(*simulation, copy_of(from, to, 64 * MB));
  }
  REQUIRE(simulation->run({}).ok());
  const Simulation::Statistics statistics = simulation->statistics();
  const Routes::PerNode planned = statistics.routes.planned;
  EXPECT_EQ(planned.full + planned.simple + planned.other, 1);
  EXPECT_EQ(statistics.routes.cached, 127);
  EXPECT_EQ(statistics.routes.by_node.size(), 64u);
  const Routes::PerNode there = statistics.routes.by_node.at(7);
  EXPECT_EQ(there.full + there.simple + there.other, 1);
  EXPECT(statistics.routes.planning_s > 0);
  for (int task = 0; task < simulation->tasks(); task += 2) {
    EXPECT(near(simulation->end_s(task), 0.064, 0.1));  // the older copy of each pair goes first
    EXPECT(near(simulation->end_s(task + 1), 0.128, 0.1));
  }
}

TEST(what_cannot_be_is_refused) {
  auto simulation = simulation_of(2);
  const auto copy = copy_of("node0/host0", "node1/host0", MB);
  const auto refused = [&](const std::function<void(Simulation::Copy&)>& change) {
    Simulation::Copy changed = copy;
    change(changed);
    return refusal(simulation->copy(changed, {}));
  };
  EXPECT(says(refused([](auto& c) { c.source = "node0/tape0"; }), "no memory \"node0/tape0\""));
  EXPECT(says(refused([](auto& c) { c.target = "node2/host0"; }), "node0 to node1"));
  EXPECT(says(refused([](auto& c) { c.target = "host0"; }), "not of this cluster"));
  EXPECT(says(refused([](auto& c) {
                c.source = "node0/host0";
                c.target = "node1/host0";
                c.through = {"node0/host0", "node1/host0", "node0/host0", "node1/host0"};
              }),
              ""));
  EXPECT(says(refused([](auto& c) { c = copy_of(c.source, c.target, 0); }), "copy of nothing"));
  EXPECT(says(refused([](auto& c) {
                c = copy_of("node0/device0", "node1/device0", 2000 * MB);
                c.whole = true;
              }),
              "fits the buffers of no memory"));
  auto wide = simulation_of(3);
  Simulation::Copy detour = copy;
  detour.through = {"node0/host0", "node2/host0", "node1/host0"};
  EXPECT(says(refusal(wide->copy(detour, {})), "node2; it can pass the nodes of its ends alone"));
  EXPECT(says(refusal(simulation->copy(copy, {{99}, 0})), "no task 99 yet"));
  EXPECT(says(refusal(simulation->compute("a", 1, {{-1}, 0})), "no task -1 yet"));
  EXPECT(says(refusal(simulation->compute("a", -1, {})), "from 0 to 9 million seconds"));
  EXPECT(says(refusal(simulation->compute("a", NAN, {})), "from 0 to 9 million seconds"));
  EXPECT(says(refusal(simulation->compute("a", 1, {{}, -2})), "a task cannot begin at -2"));
  const int compute = simulation->compute("a", 1, {}).value();
  EXPECT(says(simulation->plan_json(compute).error().text(), "only copies have plans"));
  Simulation::Options negative;
  negative.clock = &wall();
  negative.copier_threads = -1;
  EXPECT(says(Simulation::make(small_cluster(1), negative).error().text(), "is negative"));
}

TEST(clusters_of_too_many_nodes_are_refused) {
  Simulation::Options options;
  options.clock = &wall();
  EXPECT(says(Simulation::make(small_cluster(1 << 20), options).error().text(),
              "has 1048576 nodes; simulate at most 1048575"));
}

TEST(no_route_is_a_value) {
  Profile profile = small_cluster(2);
  std::erase_if(profile.channels,
                [](const ChannelSpec& c) { return c.kind == ChannelKind::remote_write; });
  Simulation::Options options;
  options.clock = &wall();
  auto simulation = Simulation::make(profile, options).value();
  const auto refused = simulation->copy(copy_of("node0/host0", "node1/host0", MB), {});
  REQUIRE(!refused.ok());
  EXPECT(refused.error().code == ErrorCode::no_route);
}

TEST(machines_that_list_their_nodes_can_be_simulated) {
  Profile profile = small_cluster(2);
  profile.nodes = 0;
  Simulation::Options options;
  options.clock = &wall();
  auto simulation = Simulation::make(profile, options).value();
  const int task = add(*simulation, copy_of("node0/registered0", "node1/registered0", 100 * MB));
  const int inside = add(*simulation, copy_of("node0/device0", "node0/host0", 400 * MB));
  REQUIRE(simulation->run({}).ok());
  EXPECT(near(took(*simulation, task), 0.1, 0.05));
  EXPECT(near(took(*simulation, inside), 0.1, 0.05));
}
