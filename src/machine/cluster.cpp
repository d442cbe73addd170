#include "machine/cluster.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

namespace tranship {
namespace {

constexpr int own_of_cluster = 2;

bool starts(const std::string& name, const char* prefix) { return name.rfind(prefix, 0) == 0; }

/// Returns 0 or 1 for "node0/..." and "node1/...", otherwise own_of_cluster.
int side_of(const std::string& name) {
  if (starts(name, "node0/")) return 0;
  return starts(name, "node1/") ? 1 : own_of_cluster;
}

/// Returns "device1" for "node0/device1".
std::string local_name(const std::string& name) { return name.substr(name.find('/') + 1); }

bool names_a_node(const std::string& name) {
  const std::size_t slash = name.find('/');
  return slash != std::string::npos && slash > 4 && starts(name, "node") &&
         std::all_of(name.begin() + 4, name.begin() + static_cast<std::ptrdiff_t>(slash),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// Returns the index of node0's entry with the same local name, or -1.
template <typename Entry>
int counterpart(const std::vector<Entry>& entries, const std::string& name) {
  const std::string wanted = "node0/" + local_name(name);
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const Entry& entry) { return entry.name == wanted; });
  return found == entries.end() ? -1 : static_cast<int>(found - entries.begin());
}

Status refused(const std::string& text, const std::string& hint) {
  return Error{ErrorCode::invalid_argument, "this machine profile cannot be used: " + text, hint};
}

Status check_memory(const Profile& profile, const Memory& memory) {
  const std::string name = "memory \"" + memory.name + "\"";
  const int side = side_of(memory.name);
  if (side == own_of_cluster || local_name(memory.name).empty()) {
    return refused(name + " is neither of node0 nor of node1",
                   "with \"nodes\" above 0 list node0's "
                   "memories, and those of node1 that it reaches");
  }
  if (side == 0) return {};
  if (profile.nodes == 1) {
    return refused(name + " is of node1, but \"nodes\" is 1", "write 2 or more, or leave it out");
  }
  const int found = counterpart(profile.memories, memory.name);
  if (found >= 0) {
    const Memory& like = profile.memories[static_cast<std::size_t>(found)];
    if (like.kind == memory.kind && like.buffer_bytes_max == memory.buffer_bytes_max &&
        like.threshold_bytes == memory.threshold_bytes) {
      return {};
    }
  }
  return refused(
      name + " has no equal in node0",
      "with \"nodes\" above 0 all nodes are equal: give node0 one of that name, kind and limits");
}

Status check_resource(const Profile& profile, const Resource& resource) {
  const std::string name = "resource \"" + resource.name + "\"";
  const int side = side_of(resource.name);
  if (side == own_of_cluster && names_a_node(resource.name)) {
    return refused(name + " is neither of node0 nor of node1",
                   "with \"nodes\" above 0 list node0's "
                   "resources, and those of node1 that channels between the two use");
  }
  if (side != 1) return {};
  const int found = counterpart(profile.resources, resource.name);
  if (found >= 0 && profile.resources[static_cast<std::size_t>(found)].bytes_per_second ==
                        resource.bytes_per_second) {
    return {};
  }
  return refused(
      name + " has no equal in node0",
      "with \"nodes\" above 0 all nodes are equal: give node0 one of that name and rate");
}

/// Returns whether a channel's name contains "node0" (or "node1") as a word.
bool says_node(const std::string& name, char number) {
  const std::string word = std::string("node") + number;
  const auto letter = [&](std::size_t at) {
    return at < name.size() && std::isalnum(static_cast<unsigned char>(name[at])) != 0;
  };
  for (std::size_t at = name.find(word); at != std::string::npos; at = name.find(word, at + 1)) {
    if (!letter(at + word.size()) && (at == 0 || !letter(at - 1))) return true;
  }
  return false;
}

Status check_channel(const Profile& profile, const ChannelSpec& channel) {
  const std::string name = "channel \"" + channel.name + "\"";
  const auto side = [&](int memory) {
    return side_of(profile.memories[static_cast<std::size_t>(memory)].name);
  };
  if (side(channel.source) != 0) {
    return refused(name + " starts at node1",
                   "with \"nodes\" above 0 list the channels inside node0 and "
                   "those from node0 to node1: the others are like them");
  }
  const bool between = side(channel.target) == 1;
  for (const int resource : channel.resources) {
    const Resource& used = profile.resources[static_cast<std::size_t>(resource)];
    if (between || side_of(used.name) != 1) continue;
    return refused(name + " stays inside node0, but uses \"" + used.name + "\"",
                   "name a resource of node0 or of the whole cluster");
  }
  if (!says_node(channel.name, '0') || says_node(channel.name, '1') != between) {
    return refused(name + " needs a name that other nodes' channels can be named by",
                   between ? "put \"node0\" and \"node1\" into it" : "put \"node0\" alone into it");
  }
  return {};
}

}  // namespace

Status check_nodes(const Profile& profile) {
  if (profile.nodes <= 0) return {};
  for (const Memory& memory : profile.memories) {
    if (Status status = check_memory(profile, memory); !status) return status;
  }
  for (const Resource& resource : profile.resources) {
    if (Status status = check_resource(profile, resource); !status) return status;
  }
  for (const ChannelSpec& channel : profile.channels) {
    if (Status status = check_channel(profile, channel); !status) return status;
  }
  return {};
}

Cluster::NamePattern::NamePattern(const std::string& name) {
  pieces.emplace_back();
  for (std::size_t at = 0; at < name.size(); ++at) {
    const std::string rest = name.substr(at);
    const bool begins = at == 0 || std::isalnum(static_cast<unsigned char>(name[at - 1])) == 0;
    const bool node = starts(rest, "node0") || starts(rest, "node1");
    const bool ends = rest.size() <= 5 || std::isalnum(static_cast<unsigned char>(rest[5])) == 0;
    if (begins && node && ends) {
      pieces.back() += "node";
      sides.push_back(rest[4] - '0');
      pieces.emplace_back();
      at += 4;
    } else {
      pieces.back() += name[at];
    }
  }
}

std::string Cluster::NamePattern::with(const std::string& near, const std::string& far) const {
  std::size_t size = pieces[0].size();
  for (std::size_t k = 0; k < sides.size(); ++k) {
    size += (sides[k] == 0 ? near : far).size() + pieces[k + 1].size();
  }
  std::string name;
  name.reserve(size);
  name += pieces[0];
  for (std::size_t k = 0; k < sides.size(); ++k) {
    name += sides[k] == 0 ? near : far;
    name += pieces[k + 1];
  }
  return name;
}

/// Two nodes of a neighbourhood: their places in it, and their numbers as text.
struct Cluster::Ends {
  int near = 0;
  int far = 0;
  const std::string& near_number;
  const std::string& far_number;
};

Result<Cluster> Cluster::make(Profile described) {
  if (Status status = described.check(); !status) return status.error();
  Cluster cluster;
  cluster.described_ = std::move(described);
  const Profile& profile = cluster.described_;
  const bool whole = profile.nodes == 0;
  std::set<std::string> nodes;
  const auto place = [&](const auto& entries, std::vector<int>& own, std::vector<Slot>& slots) {
    for (std::size_t k = 0; k < entries.size(); ++k) {
      if (!whole && side_of(entries[k].name) != 0) continue;
      own.push_back(static_cast<int>(k));
    }
    for (std::size_t k = 0; k < entries.size(); ++k) {
      const int side = whole ? 0 : side_of(entries[k].name);
      const int like = whole || side == own_of_cluster ? static_cast<int>(k)
                                                       : counterpart(entries, entries[k].name);
      const auto found = std::find(own.begin(), own.end(), like);
      slots.push_back({side, static_cast<int>(found - own.begin())});
    }
  };
  place(profile.memories, cluster.memories_, cluster.memory_slots_);
  place(profile.resources, cluster.resources_, cluster.resource_slots_);
  for (std::size_t k = 0; k < profile.resources.size(); ++k) {
    if (cluster.resource_slots_[k].side != own_of_cluster) continue;
    cluster.resource_slots_[k].number = cluster.resources_shared();
    cluster.shared_.push_back(static_cast<int>(k));
  }
  for (std::size_t k = 0; k < profile.channels.size(); ++k) {
    const ChannelSpec& channel = profile.channels[k];
    const Slot target = cluster.memory_slots_[static_cast<std::size_t>(channel.target)];
    (target.side == 0 ? cluster.inside_ : cluster.between_).push_back(static_cast<int>(k));
    cluster.patterns_.emplace_back(channel.name);
  }
  for (const Memory& memory : profile.memories) {
    nodes.insert(memory.name.substr(0, memory.name.find('/')));
  }
  cluster.nodes_ = whole ? static_cast<int>(nodes.size()) : profile.nodes;
  return cluster;
}

int Cluster::node_of(const std::string& memory) const {
  constexpr std::size_t digits_max = 9;
  const std::size_t slash = memory.find('/');
  if (!names_a_node(memory) || slash - 4 > digits_max) return -1;
  const std::string digits = memory.substr(4, slash - 4);
  const int node = std::stoi(digits);
  if (std::to_string(node) != digits) return -1;  // "node007": not how names are written
  if (described_.nodes == 0) return described_.find_memory(memory) < 0 ? -1 : node;
  return node < nodes_ && counterpart(described_.memories, memory) >= 0 ? node : -1;
}

int Cluster::resource_of(int described, const Ends& ends, int node_count) const {
  const Slot slot = resource_slots_[static_cast<std::size_t>(described)];
  const int node = slot.side == own_of_cluster ? node_count : slot.side == 0 ? ends.near : ends.far;
  return node * resources_each() + slot.number;
}

ChannelSpec Cluster::channel_between(int described, const Ends& ends, int node_count) const {
  const ChannelSpec& like = described_.channels[static_cast<std::size_t>(described)];
  const Slot source = memory_slots_[static_cast<std::size_t>(like.source)];
  const Slot target = memory_slots_[static_cast<std::size_t>(like.target)];
  ChannelSpec channel;
  channel.name =
      patterns_[static_cast<std::size_t>(described)].with(ends.near_number, ends.far_number);
  channel.kind = like.kind;
  channel.source = ends.near * memories_each() + source.number;
  channel.target = (target.side == 0 ? ends.near : ends.far) * memories_each() + target.number;
  channel.throughput = like.throughput;
  channel.latency_s = like.latency_s;
  channel.resources.reserve(like.resources.size());
  for (const int resource : like.resources) {
    channel.resources.push_back(resource_of(resource, ends, node_count));
  }
  return channel;
}

Result<Profile> Cluster::neighbourhood(std::span<const int> nodes) const {
  if (described_.nodes == 0) return described_;
  std::vector<std::string> numbers;
  for (const int node : nodes) {
    if (node < 0 || node >= nodes_) {
      return Error{ErrorCode::out_of_range,
                   "there is no node" + std::to_string(node) + " in this cluster",
                   "name nodes from 0 to " + std::to_string(nodes_ - 1)};
    }
    if (std::count(nodes.begin(), nodes.end(), node) > 1) {
      return Error{ErrorCode::invalid_argument, "node" + std::to_string(node) + " is listed twice",
                   "name each node once"};
    }
    numbers.push_back(std::to_string(node));
  }
  const int count = static_cast<int>(numbers.size());
  Profile profile;
  profile.host = described_.host;
  profile.date = described_.date;
  profile.comment = described_.comment;
  profile.handoff_s = described_.handoff_s;
  profile.cache_bytes = described_.cache_bytes;
  profile.memories.reserve(numbers.size() * memories_.size());
  profile.resources.reserve(numbers.size() * resources_.size() + shared_.size());
  profile.channels.reserve(numbers.size() *
                           (inside_.size() + (numbers.size() - 1) * between_.size()));
  for (const std::string& number : numbers) {
    const auto renamed = [&](auto entry) {
      entry.name = "node" + number + entry.name.substr(entry.name.find('/'));
      return entry;
    };
    for (const int k : memories_) {
      profile.memories.push_back(renamed(described_.memories[static_cast<std::size_t>(k)]));
    }
    for (const int k : resources_) {
      profile.resources.push_back(renamed(described_.resources[static_cast<std::size_t>(k)]));
    }
  }
  for (const int k : shared_) {
    profile.resources.push_back(described_.resources[static_cast<std::size_t>(k)]);
  }
  const auto add = [&](const std::vector<int>& channels, int near, int far) {
    const Ends ends{near, far, numbers[static_cast<std::size_t>(near)],
                    numbers[static_cast<std::size_t>(far)]};
    for (const int k : channels) profile.channels.push_back(channel_between(k, ends, count));
  };
  for (int node = 0; node < count; ++node) add(inside_, node, node);
  for (int near = 0; near < count; ++near) {
    for (int far = 0; far < count; ++far) {
      if (near != far) add(between_, near, far);
    }
  }
  return profile;
}

}  // namespace tranship
