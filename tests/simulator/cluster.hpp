// A small cluster for the simulator's tests, with round numbers, so that times can be computed by
// hand.
#pragma once

#include <memory>
#include <string>

#include "base/clock.hpp"
#include "machine/profile.hpp"
#include "simulator/simulation.hpp"
#include "support/test.hpp"

namespace tranship::test {

constexpr double MB_per_s = 1e6;

inline Profile small_cluster(int nodes) {
  Profile profile;
  profile.nodes = nodes;
  for (const char* node : {"node0", "node1"}) {
    if (node[4] == '1' && nodes == 1) continue;
    const std::string name(node);
    profile.memories.push_back({name + "/host0", MemoryKind::host, 1 << 30, 0});
    profile.memories.push_back({name + "/registered0", MemoryKind::registered, 8 << 20, 0});
    profile.memories.push_back({name + "/device0", MemoryKind::device, 1 << 30, 0});
    profile.resources.push_back({name + "/nic out", 1000 * MB_per_s});
    profile.resources.push_back({name + "/nic in", 1000 * MB_per_s});
  }
  const auto add = [&](const char* name, ChannelKind kind, const char* from, const char* to,
                       double rate) -> ChannelSpec& {
    ChannelSpec channel;
    channel.name = name;
    channel.kind = kind;
    channel.source = profile.find_memory(from);
    channel.target = profile.find_memory(to);
    channel.throughput = Throughput({{4096, 4096, rate}});
    profile.channels.push_back(channel);
    return profile.channels.back();
  };
  add("memcpy node0", ChannelKind::memcpy, "node0/host0", "node0/host0", 8000 * MB_per_s);
  for (const char* memory : {"node0/host0", "node0/registered0"}) {
    const std::string name(memory);
    add(("read node0 to " + name).c_str(), ChannelKind::gpu_read, "node0/device0", memory,
        4000 * MB_per_s);
    add(("write node0 from " + name).c_str(), ChannelKind::gpu_write, memory, "node0/device0",
        4000 * MB_per_s);
  }
  if (nodes == 1) return profile;
  for (const auto& [memory, rate] : {std::pair{"host0", 500.0}, std::pair{"registered0", 1000.0}}) {
    const std::string from = std::string("node0/") + memory;
    const std::string to = std::string("node1/") + memory;
    ChannelSpec& wire = add(("wire " + from + " to " + to).c_str(), ChannelKind::remote_write,
                            from.c_str(), to.c_str(), rate * MB_per_s);
    const auto resource = [&](const char* wanted) {
      for (std::size_t k = 0; k < profile.resources.size(); ++k) {
        if (profile.resources[k].name == wanted) return static_cast<int>(k);
      }
      return -1;
    };
    wire.resources = {resource("node0/nic out"), resource("node1/nic in")};
  }
  return profile;
}

inline const SteadyClock& wall() {
  static const SteadyClock clock;
  return clock;
}

inline std::unique_ptr<Simulation> simulation_of(int nodes, int copier_threads = 0) {
  Simulation::Options options;
  options.clock = &wall();
  options.copier_threads = copier_threads;
  return Simulation::make(small_cluster(nodes), options).value();
}

inline Simulation::Copy copy_of(const std::string& source, const std::string& target,
                                std::int64_t bytes) {
  Simulation::Copy copy;
  copy.source = source;
  copy.target = target;
  copy.source_mapping =
      Mapping::make({{"x", bytes / 8}}, {{"f", "f8", 8}}, Layout::parse("F, x").value()).value();
  copy.target_mapping = copy.source_mapping;
  return copy;
}

}  // namespace tranship::test
