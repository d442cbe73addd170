// A machine as the planner sees it: memories, channels between them, and what they share. A profile
// is measured, saved, edited, handed to another machine; nothing in it is guessed (design: I4).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "machine/channel_kind.hpp"
#include "machine/memory_kind.hpp"
#include "machine/throughput.hpp"

namespace tranship {

struct Memory {
  std::string name;  ///< such as "node0/host0"
  MemoryKind kind = MemoryKind::host;
  std::int64_t buffer_bytes_max = 0;  ///< what intermediate buffers may take there; 0: none
  /// The threshold TH (Isometry 4.1): no tile in an intermediate buffer there may be larger.
  /// 0: the planner's default.
  std::int64_t threshold_bytes = 0;
};

/// A wire, a link direction, a bus or the cores that several channels use.
struct Resource {
  std::string name;
  double bytes_per_second = 0;  ///< 0: its channels take turns, each at its own rate
};

struct ChannelSpec {
  std::string name;  ///< such as "memcpy node0"
  ChannelKind kind = ChannelKind::memcpy;
  int source = 0;  ///< index into Profile::memories
  int target = 0;
  Throughput throughput;
  double latency_s = 0;  ///< of one request, from submission to its end, size aside
  /// Requests that are carried at once, each by a thread, when the channel makes its throughput:
  /// one of them alone takes so many times as long.
  int width = 1;
  /// The channel collects and spreads what it carries in host memory: only the runs on its device
  /// count, and short ones in memory cost what the host's own channel takes for a copy of them.
  bool gathers = false;
  std::vector<int> resources;  ///< indices into Profile::resources
};

struct Profile {
  std::string host;  ///< machine on which it was measured, or the source of the figures
  std::string date;  ///< ISO 8601
  std::string comment;
  /// How many equal nodes there are, if node0 and the channels from it to node1 stand for all of
  /// them (machine/cluster.hpp); 0: every node is listed as it is.
  int nodes = 0;
  std::vector<Memory> memories;
  std::vector<Resource> resources;
  std::vector<ChannelSpec> channels;
  double handoff_s = 0;          ///< from handing a transfer to a worker to its end, size aside
  double planning_s = 0;         ///< of one full plan: it must save more than that to be made
  std::int64_t cache_bytes = 0;  ///< last-level cache: larger copies use streaming stores

  /// Index of the memory of that name, or -1.
  int find_memory(const std::string& name) const;

  /// Whether every entry can be meant: rates, sizes, names and what they refer to. A profile whose
  /// memories are not all joined is one.
  /// @error invalid_argument naming the entry, and what to write
  Status check() const;

  std::string to_json() const;
  /// @error invalid_argument naming the place in the text, or the entry, and what to write
  static Result<Profile> from_json(const std::string& text);
};

}  // namespace tranship
