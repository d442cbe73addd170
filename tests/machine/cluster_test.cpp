#include "machine/cluster.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/test.hpp"

using namespace tranship;

namespace {

int resource_named(const Profile& profile, const std::string& name) {
  for (std::size_t k = 0; k < profile.resources.size(); ++k) {
    if (profile.resources[k].name == name) return static_cast<int>(k);
  }
  return -1;
}

void add_channel(Profile& profile, ChannelKind kind, const std::string& source,
                 const std::string& target, const std::vector<std::string>& resources) {
  ChannelSpec channel;
  channel.name = source + " " + to_string(kind) + " " + target;
  channel.kind = kind;
  channel.source = profile.find_memory(source);
  channel.target = profile.find_memory(target);
  channel.throughput = Throughput({{4096, 64, 1e9}, {1 << 20, 64, 2e9}});
  channel.latency_s = 1e-6;
  for (const std::string& name : resources) {
    channel.resources.push_back(resource_named(profile, name));
  }
  profile.channels.push_back(std::move(channel));
}

/// Returns nodes with some GPUs and a network card each, and one file system for all nodes.
Profile described(int nodes, int devices) {
  Profile profile;
  profile.host = "test";
  profile.nodes = nodes;
  profile.memories = {{"node0/host0", MemoryKind::host, 1 << 20, 0},
                      {"node1/host0", MemoryKind::host, 1 << 20, 0},
                      {"node0/file0", MemoryKind::file, 0, 0}};
  profile.resources = {
      {"node1/nic in", 3e9}, {"file system", 5e9}, {"node0/nic out", 3e9}, {"node0/nic in", 3e9}};
  for (int k = 0; k < devices; ++k) {
    const std::string device = "node0/device" + std::to_string(k);
    profile.memories.push_back({device, MemoryKind::device, 1 << 20, 1 << 10});
    profile.resources.push_back({device + " out", 6e9});
  }
  add_channel(profile, ChannelKind::memcpy, "node0/host0", "node0/host0", {});
  add_channel(profile, ChannelKind::remote_write, "node0/host0", "node1/host0",
              {"node0/nic out", "node1/nic in", "file system"});
  add_channel(profile, ChannelKind::file_write, "node0/host0", "node0/file0", {"file system"});
  for (int k = 0; k < devices; ++k) {
    const std::string device = "node0/device" + std::to_string(k);
    for (int other = 0; other < devices; ++other) {
      const std::string peer = "node0/device" + std::to_string(other);
      if (k != other) add_channel(profile, ChannelKind::gpu_peer, device, peer, {device + " out"});
    }
    add_channel(profile, ChannelKind::gpu_read, device, "node0/host0", {device + " out"});
    add_channel(profile, ChannelKind::gpu_write, "node0/host0", device, {});
  }
  return profile;
}

Profile nodes_of(const Cluster& cluster, const std::vector<int>& nodes) {
  return cluster.neighbourhood(nodes).value();
}

const ChannelSpec* channel_named(const Profile& profile, const std::string& name) {
  for (const ChannelSpec& channel : profile.channels) {
    if (channel.name == name) return &channel;
  }
  return nullptr;
}

void expect_refused(const Profile& profile, const std::string& words) {
  const auto made = Cluster::make(profile);
  REQUIRE(!made.ok());
  EXPECT(made.error().code == ErrorCode::invalid_argument);
  if (made.error().text().find(words) == std::string::npos) {
    EXPECT_EQ(made.error().text(), words);
  }
}

}  // namespace

TEST(a_node_of_a_cluster_has_its_own_names) {
  const Cluster cluster = Cluster::make(described(1000, 2)).value();
  EXPECT_EQ(cluster.nodes(), 1000);
  const Profile one = nodes_of(cluster, {7});
  REQUIRE(one.check().ok());
  EXPECT_EQ(one.nodes, 0);
  EXPECT_EQ(one.memories.size(), 4u);
  EXPECT_EQ(one.memories[0].name, "node7/host0");
  EXPECT_EQ(one.memories[3].name, "node7/device1");
  EXPECT_EQ(one.memories[3].threshold_bytes, 1 << 10);
  EXPECT_EQ(one.resources.size(), 5u);
  EXPECT_EQ(one.resources.back().name, "file system");
  EXPECT_EQ(one.channels.size(), 8u);
  const ChannelSpec* read = channel_named(one, "node7/device1 gpu_read node7/host0");
  REQUIRE(read != nullptr);
  EXPECT_EQ(one.memories[static_cast<std::size_t>(read->source)].name, "node7/device1");
  EXPECT_EQ(one.resources[static_cast<std::size_t>(read->resources[0])].name, "node7/device1 out");
}

TEST(channels_between_nodes_use_what_is_at_both_ends) {
  const Cluster cluster = Cluster::make(described(1000, 2)).value();
  const Profile pair = nodes_of(cluster, {12, 3});
  REQUIRE(pair.check().ok());
  EXPECT_EQ(pair.memories.size(), 8u);
  EXPECT_EQ(pair.channels.size(), 18u);
  for (const auto& [near, far] : {std::pair<std::string, std::string>{"node12", "node3"},
                                  std::pair<std::string, std::string>{"node3", "node12"}}) {
    const ChannelSpec* write = channel_named(pair, near + "/host0 remote_write " + far + "/host0");
    REQUIRE(write != nullptr);
    EXPECT_EQ(pair.memories[static_cast<std::size_t>(write->source)].name, near + "/host0");
    EXPECT_EQ(pair.memories[static_cast<std::size_t>(write->target)].name, far + "/host0");
    EXPECT_EQ(write->resources.size(), 3u);
    EXPECT_EQ(write->resources[0], resource_named(pair, near + "/nic out"));
    EXPECT_EQ(write->resources[1], resource_named(pair, far + "/nic in"));
    EXPECT_EQ(write->resources[2], resource_named(pair, "file system"));
  }
}

TEST(a_neighbourhood_is_ordered_so_that_indices_divide) {
  const Cluster cluster = Cluster::make(described(9, 3)).value();
  const std::vector<int> nodes = {4, 0, 8};
  const Profile profile = nodes_of(cluster, nodes);
  REQUIRE(profile.check().ok());
  for (std::size_t k = 0; k < profile.memories.size(); ++k) {
    const int place = static_cast<int>(k) / cluster.memories_each();
    EXPECT_EQ(cluster.node_of(profile.memories[k].name), nodes[static_cast<std::size_t>(place)]);
  }
  const int inside = 3 * cluster.channels_inside_each();
  EXPECT_EQ(profile.channels.size(),
            static_cast<std::size_t>(inside + 6 * cluster.channels_between_each()));
  for (std::size_t k = 0; k < profile.channels.size(); ++k) {
    const ChannelSpec& channel = profile.channels[k];
    const int number = static_cast<int>(k);
    const int near = channel.source / cluster.memories_each();
    const int far = channel.target / cluster.memories_each();
    if (number < inside) {
      EXPECT_EQ(near, number / cluster.channels_inside_each());
      EXPECT_EQ(far, near);
    } else {
      const int pair = (number - inside) / cluster.channels_between_each();
      EXPECT_EQ(near, pair / 2);
      EXPECT_EQ(far, pair % 2 < near ? pair % 2 : pair % 2 + 1);
    }
  }
  EXPECT_EQ(profile.resources.size(),
            static_cast<std::size_t>(3 * cluster.resources_each() + cluster.resources_shared()));
}

TEST(neighbourhoods_of_as_many_nodes_differ_in_names_alone) {
  const Cluster cluster = Cluster::make(described(50, 2)).value();
  const Profile a = nodes_of(cluster, {0, 1});
  const Profile b = nodes_of(cluster, {41, 17});
  REQUIRE(a.channels.size() == b.channels.size());
  for (std::size_t k = 0; k < a.channels.size(); ++k) {
    EXPECT_EQ(a.channels[k].source, b.channels[k].source);
    EXPECT_EQ(a.channels[k].target, b.channels[k].target);
    EXPECT(a.channels[k].resources == b.channels[k].resources);
    EXPECT(a.channels[k].throughput.samples() == b.channels[k].throughput.samples());
    EXPECT_EQ(a.channels[k].latency_s, b.channels[k].latency_s);
  }
}

TEST(nodes_that_are_not_there) {
  const Cluster cluster = Cluster::make(described(9, 1)).value();
  const auto beyond = cluster.neighbourhood(std::array{0, 9});
  REQUIRE(!beyond.ok());
  EXPECT(beyond.error().code == ErrorCode::out_of_range);
  EXPECT_EQ(beyond.error().text(), "there is no node9 in this cluster; name nodes from 0 to 8");
  EXPECT(!cluster.neighbourhood(std::array{-1}).ok());
  const auto twice = cluster.neighbourhood(std::array{2, 2});
  REQUIRE(!twice.ok());
  EXPECT(twice.error().code == ErrorCode::invalid_argument);
  EXPECT_EQ(twice.error().text(), "node2 is listed twice; name each node once");
  EXPECT(nodes_of(cluster, {}).memories.empty());
  for (const char* name : {"node9/host0", "node1/device7", "node", "node/host0", "host0", "",
                           "node01/host0", "node-1/host0", "node99999999999/host0"}) {
    EXPECT_EQ(cluster.node_of(name), -1);
  }
  EXPECT_EQ(cluster.node_of("node8/device0"), 8);
}

TEST(a_profile_that_lists_its_nodes_is_handed_out_as_it_is) {
  Profile listed = nodes_of(Cluster::make(described(9, 1)).value(), {0, 5});
  const Cluster cluster = Cluster::make(listed).value();
  EXPECT_EQ(cluster.nodes(), 2);
  EXPECT_EQ(cluster.node_of("node5/device0"), 5);
  EXPECT_EQ(cluster.node_of("node1/device0"), -1);
  EXPECT_EQ(nodes_of(cluster, {0}).to_json(), listed.to_json());
  EXPECT_EQ(cluster.channels_inside_each(), static_cast<int>(listed.channels.size()));
  EXPECT_EQ(cluster.channels_between_each(), 0);
}

TEST(what_every_node_has_must_be_said_once) {
  using Change = std::function<void(Profile&)>;
  const std::vector<std::pair<Change, const char*>> cases = {
      {[](Profile& p) { p.memories[2].name = "disk"; },
       "memory \"disk\" is neither of node0 nor of node1; with \"nodes\" above 0 list"},
      {[](Profile& p) { p.memories[2].name = "node2/file0"; }, "neither of node0 nor of node1"},
      {[](Profile& p) { p.memories[2].name = "node0/"; }, "neither of node0 nor of node1"},
      {[](Profile& p) { p.nodes = 1; },
       "memory \"node1/host0\" is of node1, but \"nodes\" is 1; write 2 or more"},
      {[](Profile& p) { p.memories[1].kind = MemoryKind::pinned; },
       "memory \"node1/host0\" has no equal in node0"},
      {[](Profile& p) { p.memories[1].threshold_bytes = 1; }, "of that name, kind and limits"},
      {[](Profile& p) { p.memories[1].name = "node1/host7"; }, "has no equal in node0"},
      {[](Profile& p) { p.resources[0].name = "node2/nic in"; },
       "resource \"node2/nic in\" is neither of node0 nor of node1"},
      {[](Profile& p) { p.resources[0].bytes_per_second = 1; },
       "resource \"node1/nic in\" has no equal in node0"},
      {[](Profile& p) { p.resources[0].name = "node1/nic"; }, "of that name and rate"},
      {[](Profile& p) { std::swap(p.channels[1].source, p.channels[1].target); },
       "starts at node1; with \"nodes\" above 0 list the channels inside node0"},
      {[](Profile& p) { p.channels[2].resources.push_back(0); },
       "stays inside node0, but uses \"node1/nic in\"; name a resource of node0"},
      {[](Profile& p) { p.channels[0].name = "memcpy"; },
       "channel \"memcpy\" needs a name that other nodes' channels can be named by; put \"node0\" "
       "alone into it"},
      {[](Profile& p) { p.channels[0].name = "node0 node1"; }, "put \"node0\" alone"},
      {[](Profile& p) { p.channels[0].name = "node01"; }, "put \"node0\" alone"},
      {[](Profile& p) { p.channels[1].name = "node0 out"; }, "put \"node0\" and \"node1\" into it"},
  };
  for (const auto& [change, words] : cases) {
    Profile profile = described(4, 1);
    change(profile);
    expect_refused(profile, words);
    EXPECT(!Profile::from_json(profile.to_json()).ok());
  }
  Profile broken = described(4, 1);
  broken.channels[0].latency_s = -1;
  expect_refused(broken, "write seconds");
}

TEST(a_neighbourhood_costs_microseconds) {
  const Cluster cluster = Cluster::make(described(100000, 8)).value();
  (void)nodes_of(cluster, {5, 99999});
  std::chrono::duration<double> least{1};
  for (int k = 0; k < 100; ++k) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(nodes_of(cluster, {k, 99999}).channels.size(), 150u);
    least =
        std::min<std::chrono::duration<double>>(least, std::chrono::steady_clock::now() - begin);
  }
  // It takes some 20 us in a release build; the limit leaves room for sanitizers and busy machines.
  EXPECT(least.count() < 2e-3);
}
