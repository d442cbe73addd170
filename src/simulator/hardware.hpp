// The channels, resources and memories of a simulated cluster, made when they are first used.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "channels/sim/sim_channel.hpp"
#include "machine/cluster.hpp"
#include "runtime/step_driver.hpp"

namespace tranship {

/// A memory of the cluster: its node, and its index among those of a node.
struct MemoryOfNode {
  int node = 0;
  int index = 0;
};

/// The nodes that a plan speaks of, in the order of the neighbourhood on which it was made.
struct NodePair {
  int first = 0;
  int second = -1;  ///< -1: the first one alone
};

/// Knows the neighbourhoods of one node and of two, on which all plans are made, and turns what
/// they name into channels, resources and memories of the nodes in question. Costs memory for what
/// was used, however many nodes there are. Not thread-safe.
class Hardware {
 public:
  struct Options {
    /// Requests of one hop that a copier keeps in flight, times the copiers: what a channel must
    /// take at least. 0: channels bound what is in flight as an engine does.
    int copier_requests_max = 0;
  };
  /// @error as of Cluster::neighbourhood
  static Result<std::unique_ptr<Hardware>> make(Cluster cluster, SimWorld& world, Options options);

  /// The driver gets the channels and memories as they are made. Called once, before the rest.
  void attach(StepDriver& driver) { driver_ = &driver; }

  /// @error not_found if no node has such a memory; out_of_range if the cluster has no such node
  Result<MemoryOfNode> find(const std::string& memory) const;

  /// The profile on which a plan between the nodes of two memories is made.
  const Profile& profile(bool two_nodes) const { return template_of(two_nodes).profile; }
  /// A memory's index in that profile.
  int index_in(const NodePair& nodes, const MemoryOfNode& memory) const;
  /// The node of a memory with that index.
  int node_of(const NodePair& nodes, int memory) const;

  /// The driver's number of a channel of profile().
  int channel(const NodePair& nodes, int channel);
  /// The driver's number of a memory of profile().
  int memory(const NodePair& nodes, int memory);
  /// What buffers may take in the driver's memory of that number.
  std::int64_t buffer_bytes_max(int number) const {
    return buffer_bytes_max_[static_cast<std::size_t>(number)];
  }

  const Cluster& cluster() const { return cluster_; }
  std::size_t channels_made() const { return channels_.size(); }

 private:
  /// A channel of a neighbourhood, by its place in it.
  struct Position {
    int source_slot = 0;  ///< which of the neighbourhood's nodes
    int target_slot = 0;
    int ordinal = 0;  ///< among the channels between these two
  };
  struct Template {
    Profile profile;
    std::vector<Position> positions;
    std::vector<std::shared_ptr<const ChannelSpec>> specs;
  };

  Hardware(Cluster cluster, SimWorld& world, Options options);
  Status describe(std::span<const int> nodes);
  const Template& template_of(bool two_nodes) const { return templates_[two_nodes ? 1 : 0]; }
  int resource(const NodePair& nodes, int resource);
  int make_channel(const NodePair& nodes, const ChannelSpec& spec,
                   std::shared_ptr<const ChannelSpec> shared);

  Cluster cluster_;
  SimWorld& world_;
  Options options_;
  StepDriver* driver_ = nullptr;
  std::array<Template, 2> templates_;                  ///< of one node, of two
  bool listed_ = false;                                ///< the profile names every node itself
  std::unordered_map<std::string, int> memory_index_;  ///< by the name without its node
  std::vector<std::unique_ptr<SimChannel>> channels_;
  std::unordered_map<std::uint64_t, int> channel_numbers_;
  std::unordered_map<std::uint64_t, int> resource_numbers_;
  std::unordered_map<std::uint64_t, int> memory_numbers_;
  std::vector<std::int64_t> buffer_bytes_max_;
};

}  // namespace tranship
