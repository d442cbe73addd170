// The channels, resources and memories of a simulated cluster, created on first use.
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

/// A memory of the cluster: its node, and its index among the memories of a node.
struct MemoryOfNode {
  int node = 0;
  int index = 0;
};

/// Returns a source of simulated buffers, whose bytes are never accessed: all have one address.
BufferSource simulated_buffers();

/// The nodes of a plan, in the order of the neighbourhood for which it was made.
struct NodePair {
  int first = 0;
  int second = -1;  ///< -1: only the first node
};

/// Holds the profiles of one node and of two nodes, for which all plans are made, and maps their
/// entries to the channels, resources and memories of actual nodes. Memory use grows with the
/// entries used, not with the number of nodes. Threads: one.
class Hardware {
 public:
  struct Options {
    /// Smallest number of requests that a channel must accept: the requests that a copier keeps in
    /// flight for one hop, times the copiers. 0: channels limit the requests in flight as in an
    /// engine.
    int copier_requests_max = 0;
  };
  /// Returns the hardware of a cluster.
  /// @error as Cluster::neighbourhood
  static Result<std::unique_ptr<Hardware>> make(Cluster cluster, SimWorld& world, Options options);

  /// Registers the driver that receives channels and memories as they are created. Called once,
  /// before all other functions.
  void attach(StepDriver& driver) { driver_ = &driver; }

  /// Returns the memory of that name.
  /// @error not_found if no node has such a memory; out_of_range if the cluster has no such node
  Result<MemoryOfNode> find(const std::string& memory) const;

  /// Returns the profile for plans on one node or between two nodes.
  const Profile& profile(bool two_nodes) const { return template_of(two_nodes).profile; }
  /// Returns a memory's index in that profile.
  int index_in(const NodePair& nodes, const MemoryOfNode& memory) const;
  /// Returns the node of the memory with that index.
  int node_of(const NodePair& nodes, int memory) const;

  /// Returns the driver's number of a channel of profile().
  int channel(const NodePair& nodes, int channel);
  /// Returns the driver's number of a memory of profile().
  int memory(const NodePair& nodes, int memory);
  /// Returns the buffer budget of the driver's memory of that number.
  std::int64_t buffer_bytes_max(int number) const {
    return buffer_bytes_max_[static_cast<std::size_t>(number)];
  }

  const Cluster& cluster() const { return cluster_; }
  std::size_t channels_made() const { return channels_.size(); }

 private:
  /// The position of a channel in a neighbourhood.
  struct Position {
    int source_slot = 0;  ///< number of the source's node in the neighbourhood
    int target_slot = 0;
    int ordinal = 0;  ///< number among the channels between these two nodes
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
  std::array<Template, 2> templates_;                  ///< for one node, and for two nodes
  bool listed_ = false;                                ///< the profile itself names every node
  std::unordered_map<std::string, int> memory_index_;  ///< by the name without its node
  std::vector<std::unique_ptr<SimChannel>> channels_;
  std::unordered_map<std::uint64_t, int> channel_numbers_;
  std::unordered_map<std::uint64_t, int> resource_numbers_;
  std::unordered_map<std::uint64_t, int> memory_numbers_;
  std::vector<std::int64_t> buffer_bytes_max_;
};

}  // namespace tranship
