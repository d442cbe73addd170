// A cluster of equal nodes, described by one of them: what a planner or a simulator needs to know
// of a few of its nodes costs the same whether it has two or a hundred thousand.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "machine/profile.hpp"

namespace tranship {

/// A value. Its profile lists the memories, resources and channels of node0, the memories of node1
/// that node0 reaches, and the channels from node0 to node1 with the resources that they use on
/// both sides. Names begin with "node0/" or "node1/", and those of channels have these words
/// somewhere; a resource whose name does not (a switch, a parallel file system) is one for the
/// whole cluster. A profile with `nodes` 0 is a cluster of the nodes that it names, and is handed
/// out as it is. A neighbourhood costs some hundred nanoseconds a channel.
class Cluster {
 public:
  /// @error invalid_argument if the profile does not describe what every node has
  static Result<Cluster> make(Profile described);

  int nodes() const { return nodes_; }

  /// The node named in "node3/device1", as its number in the cluster; -1: there is no such memory
  /// in this cluster.
  int node_of(const std::string& memory) const;

  /// The profile of those nodes alone: everything inside each of them, and the channels between
  /// any two, with their own names. Memories come node by node, in the template's order; so do
  /// resources (the cluster's own ones last) and the channels inside nodes. Channels between come
  /// after those, by the node that they leave, then by the one that they reach, in the order given.
  /// Two calls with the same number of nodes give the same profile but for names.
  /// @error out_of_range if a node is not of this cluster; invalid_argument if one is named twice
  Result<Profile> neighbourhood(std::span<const int> nodes) const;

  /// How many of each a node has; the index of a neighbourhood's memory, resource or channel inside
  /// its node follows by division. With `nodes` 0: how many there are in all, and none between.
  int memories_each() const { return static_cast<int>(memories_.size()); }
  int resources_each() const { return static_cast<int>(resources_.size()); }
  int resources_shared() const { return static_cast<int>(shared_.size()); }
  int channels_inside_each() const { return static_cast<int>(inside_.size()); }
  int channels_between_each() const {  ///< from one node to one other
    return static_cast<int>(between_.size());
  }

  const Profile& described() const { return described_; }

 private:
  /// A name, cut where the number of a node goes.
  struct NamePattern {
    std::vector<std::string> pieces;  ///< the text between the numbers
    std::vector<int> sides;           ///< node0 or node1 after each piece but the last

    explicit NamePattern(const std::string& name);
    std::string with(const std::string& near, const std::string& far) const;
  };
  /// Where an entry of the template stands: in node0 or node1, and which of the node's it is.
  struct Slot {
    int side = 0;
    int number = 0;
  };
  struct Ends;

  int resource_of(int described, const Ends& ends, int node_count) const;
  ChannelSpec channel_between(int described, const Ends& ends, int node_count) const;

  Profile described_;
  int nodes_ = 0;
  std::vector<Slot> memory_slots_;     ///< by memory of the template
  std::vector<Slot> resource_slots_;   ///< by resource of the template; side 2: the cluster's own
  std::vector<int> memories_;          ///< of node0
  std::vector<int> resources_;         ///< of node0
  std::vector<int> shared_;            ///< resources of the whole cluster
  std::vector<int> inside_;            ///< channels within node0
  std::vector<int> between_;           ///< channels from node0 to node1
  std::vector<NamePattern> patterns_;  ///< by channel of the template
};

/// Whether a profile with `nodes` above 0 says what every node has, and nothing twice. Part of
/// Profile::check().
/// @error invalid_argument naming the entry, and what to write
Status check_nodes(const Profile& profile);

}  // namespace tranship
