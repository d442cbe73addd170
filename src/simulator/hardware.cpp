#include "simulator/hardware.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/at.hpp"
#include "base/check.hpp"

namespace tranship {
namespace {

/// Smallest number of requests that a channel accepts, so that it always has a next one.
constexpr int requests_min = 2;
/// Largest number of small requests that hide each other's latency.
constexpr int requests_max = 64;

/// Address of all simulated buffers. It is never accessed; null would mean that memory is
/// exhausted.
std::byte* token() {
  static std::byte one{};
  return &one;
}

/// Combines numbers of up to 24, 20 and 20 bits into one.
std::uint64_t key_of(int ordinal, int first_node, int second_node) {
  return static_cast<std::uint64_t>(ordinal) << 40 | static_cast<std::uint64_t>(first_node) << 20 |
         static_cast<std::uint64_t>(second_node);
}

constexpr int nodes_most = (1 << 20) - 1;

std::string without_node(const std::string& memory) {
  const std::size_t slash = memory.find('/');
  return slash == std::string::npos ? memory : memory.substr(slash + 1);
}

int node_in(const NodePair& nodes, int slot) { return slot == 0 ? nodes.first : nodes.second; }

}  // namespace

BufferSource simulated_buffers() {
  return {[](std::int64_t) { return token(); }, [](std::byte*, std::int64_t) {}};
}

Hardware::Hardware(Cluster cluster, SimWorld& world, Options options)
    : cluster_(std::move(cluster)), world_(world), options_(options) {}

Result<std::unique_ptr<Hardware>> Hardware::make(Cluster cluster, SimWorld& world,
                                                 Options options) {
  std::unique_ptr<Hardware> made(new Hardware(std::move(cluster), world, options));
  made->listed_ = made->cluster_.described().nodes == 0;
  if (made->cluster_.nodes() > nodes_most) {
    return Error{ErrorCode::out_of_range,
                 "the cluster has " + std::to_string(made->cluster_.nodes()) + " nodes",
                 "simulate at most " + std::to_string(nodes_most)};
  }
  const std::array<int, 2> nodes{0, 1};
  if (Status one = made->describe(std::span(nodes).first(1)); !one) return one.error();
  if (!made->listed_ && made->cluster_.nodes() > 1) {
    if (Status two = made->describe(nodes); !two) return two.error();
  }
  return made;
}

Status Hardware::describe(std::span<const int> nodes) {
  auto profile = cluster_.neighbourhood(nodes);
  if (!profile) return profile.error();
  Template& described = templates_[nodes.size() - 1];
  described.profile = std::move(*profile);
  const int each =
      listed_ ? static_cast<int>(described.profile.memories.size()) : cluster_.memories_each();
  std::map<std::pair<int, int>, int> counts;
  for (const ChannelSpec& spec : described.profile.channels) {
    const int from = spec.source / each;
    const int to = spec.target / each;
    described.positions.push_back({from, to, counts[{from, to}]++});
    described.specs.push_back(std::make_shared<const ChannelSpec>(spec));
  }
  for (int k = 0; nodes.size() == 1 && k < each; ++k) {
    const std::string& name = described.profile.memories[at(k)].name;
    memory_index_.emplace(listed_ ? name : without_node(name), k);
  }
  return {};
}

Result<MemoryOfNode> Hardware::find(const std::string& memory) const {
  const auto found = memory_index_.find(listed_ ? memory : without_node(memory));
  if (found == memory_index_.end()) {
    std::string known;
    for (const Memory& one : templates_[0].profile.memories) {
      known += (known.empty() ? "" : ", ") + one.name;
    }
    return Error{ErrorCode::not_found, "the machine has no memory \"" + memory + "\"",
                 "it has " + known + (listed_ ? "" : ", and the same on every other node")};
  }
  if (listed_) return MemoryOfNode{0, found->second};
  const int node = cluster_.node_of(memory);
  if (node < 0) {
    return Error{ErrorCode::out_of_range, "\"" + memory + "\" is not of this cluster",
                 "its nodes are node0 to node" + std::to_string(cluster_.nodes() - 1)};
  }
  return MemoryOfNode{node, found->second};
}

int Hardware::index_in(const NodePair& nodes, const MemoryOfNode& memory) const {
  return memory.node == nodes.first ? memory.index : cluster_.memories_each() + memory.index;
}

int Hardware::node_of(const NodePair& nodes, int memory) const {
  if (listed_) {
    const int named = cluster_.node_of(templates_[0].profile.memories[at(memory)].name);
    return std::max(named, 0);
  }
  return node_in(nodes, memory / cluster_.memories_each());
}

int Hardware::memory(const NodePair& nodes, int memory) {
  const Memory& described = profile(nodes.second >= 0).memories[at(memory)];
  const int index = listed_ ? memory : memory % cluster_.memories_each();
  const int node = listed_ ? 0 : node_of(nodes, memory);
  const auto [entry, added] = memory_numbers_.try_emplace(key_of(index, node, 0), 0);
  if (added) {
    entry->second = driver_->add_memory({described.buffer_bytes_max, simulated_buffers()});
    buffer_bytes_max_.push_back(described.buffer_bytes_max);
    CHECK(entry->second + 1 == static_cast<int>(buffer_bytes_max_.size()),
          "all memories of the driver are made here");
  }
  return entry->second;
}

int Hardware::resource(const NodePair& nodes, int resource) {
  const Profile& known = profile(nodes.second >= 0);
  const int slots = nodes.second >= 0 ? 2 : 1;
  const int each = listed_ ? 0 : cluster_.resources_each();
  const bool own = resource < slots * each;
  // The key of a resource of the whole cluster has a node number that no node has.
  const std::uint64_t key = own ? key_of(resource % each, node_in(nodes, resource / each), 0)
                                : key_of(resource - slots * each, nodes_most, 0);
  const auto [entry, added] = resource_numbers_.try_emplace(key, 0);
  if (added) entry->second = world_.add_resource(known.resources[at(resource)].bytes_per_second);
  return entry->second;
}

int Hardware::channel(const NodePair& nodes, int channel) {
  const Template& described = template_of(nodes.second >= 0);
  const Position& position = described.positions[at(channel)];
  const std::uint64_t key = listed_ ? key_of(channel, 0, 0)
                                    : key_of(position.ordinal, node_in(nodes, position.source_slot),
                                             node_in(nodes, position.target_slot));
  const auto [entry, added] = channel_numbers_.try_emplace(key, 0);
  if (added) {
    entry->second =
        make_channel(nodes, described.profile.channels[at(channel)], described.specs[at(channel)]);
  }
  return entry->second;
}

int Hardware::make_channel(const NodePair& nodes, const ChannelSpec& spec,
                           std::shared_ptr<const ChannelSpec> shared) {
  SimChannel::Options options;
  options.shared_spec = std::move(shared);
  for (const int one : spec.resources) options.resources.push_back(resource(nodes, one));
  channels_.push_back(std::make_unique<SimChannel>(world_, std::move(options)));
  Scheduler::ChannelLimits limits;
  if (options_.copier_requests_max > 0) {
    limits.jobs_in_flight_max = std::max(options_.copier_requests_max, requests_max);
  } else {
    // Twice the bytes that the channel carries during one request's latency: enough to keep it
    // busy.
    limits.bytes_in_flight_max =
        static_cast<std::int64_t>(std::ceil(2 * spec.throughput.peak() * spec.latency_s)) + 1;
    limits.jobs_in_flight_max = requests_max;
    limits.jobs_in_flight_min = requests_min;
  }
  const int number = driver_->add_channel(*channels_.back(), limits);
  CHECK(number == channels_.back()->number(), "driver and world number channels alike");
  return number;
}

}  // namespace tranship
