// The planner's model of a machine: memories, channels between them, and resources that channels
// share. Profiles are measured, saved, edited and used on other machines (design: I4).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "machine/channel_kind.hpp"
#include "machine/memory_kind.hpp"
#include "machine/throughput.hpp"

namespace tranship {

/// One memory of the machine.
struct Memory {
  std::string name;  ///< such as "node0/host0"
  MemoryKind kind = MemoryKind::host;
  std::int64_t buffer_bytes_max = 0;  ///< bytes for intermediate buffers; 0: none are allowed
  /// The threshold TH (Isometry 4.1): largest tile of an intermediate buffer in this memory, in
  /// bytes. 0: the planner's default.
  std::int64_t threshold_bytes = 0;
};

/// Hardware that several channels use: a wire, one direction of a link, a bus or the cores.
struct Resource {
  std::string name;
  double bytes_per_second = 0;  ///< 0: one channel uses it at a time, each at its own rate
};

/// One channel of the machine.
struct ChannelSpec {
  std::string name;  ///< such as "memcpy node0"
  ChannelKind kind = ChannelKind::memcpy;
  int source = 0;  ///< index into Profile::memories
  int target = 0;
  Throughput throughput;
  double latency_s =
      0;  ///< time of one request from submission to end that its size does not explain
  /// Number of requests, each carried by a thread, with which the channel reaches its throughput:
  /// a single request has this fraction of the rate.
  int width = 1;
  /// Whether the channel gathers and scatters in host memory. Then its throughput depends on the
  /// runs on its device only; short runs in host memory cost a copy by the memcpy channel.
  bool gathers = false;
  std::vector<int> resources;  ///< indices into Profile::resources
};

/// The model of one machine or of one cluster. A value.
struct Profile {
  std::string host;  ///< machine on which it was measured, or source of the figures
  std::string date;  ///< ISO 8601
  std::string comment;
  /// Number of equal nodes, if node0 and its channels to node1 describe all of them
  /// (machine/cluster.hpp); 0: every node is listed.
  int nodes = 0;
  std::vector<Memory> memories;
  std::vector<Resource> resources;
  std::vector<ChannelSpec> channels;
  double handoff_s = 0;   ///< time from handing a transfer to a worker to its end, without the copy
  double planning_s = 0;  ///< time of one full plan; a plan must save more than that
  /// Part of the processors' time that other processes took while it was measured, from 0 to 1.
  double others_share = 0;
  std::int64_t cache_bytes =
      0;  ///< size of the last-level cache; larger copies use streaming stores

  /// Returns the index of the memory of that name, or -1.
  int find_memory(const std::string& name) const;

  /// Checks every entry: rates, sizes, names and references. A profile whose memories are not all
  /// connected is valid.
  /// @error invalid_argument naming the first wrong entry, and what to write
  Status check() const;

  /// Returns the profile as JSON; docs/reference/machines.md describes the keys.
  std::string to_json() const;
  /// Reads a profile from JSON and checks it.
  /// @error invalid_argument naming the place in the text or the entry, and what to write
  static Result<Profile> from_json(const std::string& text);
};

}  // namespace tranship
