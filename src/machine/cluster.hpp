// A cluster of equal nodes, described by one of them: the profile of a few nodes costs the same
// whether the cluster has two nodes or a hundred thousand.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "machine/profile.hpp"

namespace tranship {

/// A value. Its profile lists the memories, resources and channels of node0, the memories of node1
/// that node0 reaches, and the channels from node0 to node1 with the resources that they use on
/// both sides. Names of memories and resources begin with "node0/" or "node1/", and names of
/// channels contain these words. A resource with another name (a switch, a parallel file system)
/// exists once for the whole cluster. A profile with `nodes` 0 is a cluster of the nodes that it
/// lists. A neighbourhood costs some hundred nanoseconds for each channel.
class Cluster {
 public:
  /// Returns the cluster that a profile describes.
  /// @error invalid_argument if the profile does not describe every node
  static Result<Cluster> make(Profile described);

  int nodes() const { return nodes_; }

  /// Returns the number of the node of a memory, 3 for "node3/device1"; -1 if the cluster has no
  /// such memory.
  int node_of(const std::string& memory) const;

  /// Returns the profile of those nodes alone: everything inside each of them, and the channels
  /// between any two, with the names of these nodes. Memories come node by node, in the template's
  /// order; so do resources (the cluster's own ones last) and the channels inside nodes. Channels
  /// between come after those, by the node that they leave, then by the one that they reach, in the
  /// order given. Two calls with the same number of nodes give the same profile but for names.
  /// @error out_of_range if a node is not of this cluster; invalid_argument if one is named twice
  Result<Profile> neighbourhood(std::span<const int> nodes) const;

  /// Return how many of each a node has. The index of a neighbourhood's memory, resource or channel
  /// inside its node follows by division. With `nodes` 0 these are the numbers of the whole
  /// profile, and none is between nodes.
  int memories_each() const { return static_cast<int>(memories_.size()); }
  int resources_each() const { return static_cast<int>(resources_.size()); }
  int resources_shared() const { return static_cast<int>(shared_.size()); }
  int channels_inside_each() const { return static_cast<int>(inside_.size()); }
  int channels_between_each() const {  ///< from one node to one other
    return static_cast<int>(between_.size());
  }

  const Profile& described() const { return described_; }

 private:
  /// A name, split where the numbers of nodes are inserted.
  struct NamePattern {
    std::vector<std::string> pieces;  ///< the text between the numbers
    std::vector<int> sides;           ///< node0 or node1 after each piece but the last

    explicit NamePattern(const std::string& name);
    std::string with(const std::string& near, const std::string& far) const;
  };
  /// Position of an entry in the profile: node0 or node1, and its number within that node.
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

/// Checks that a profile with `nodes` above 0 describes every node, and nothing twice. Part of
/// Profile::check().
/// @error invalid_argument naming the entry, and what to write
Status check_nodes(const Profile& profile);

}  // namespace tranship
