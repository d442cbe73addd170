// A machine as the planner sees it: memories, channels between them, and what they share. A profile
// is measured, saved, edited, handed to another machine; nothing in it is guessed (design: I4).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "machine/throughput.hpp"
#include "tranship/error.hpp"

namespace tranship {

enum class MemoryKind { host, pinned, registered, device, file };
enum class ChannelKind {
  memcpy,
  gpu_read,
  gpu_write,
  gpu_copy,
  gpu_peer,
  file_read,
  file_write,
  remote_write,
  remote_read,
};

const char* to_string(MemoryKind kind);
const char* to_string(ChannelKind kind);
Result<MemoryKind> memory_kind_from(const std::string& text);
Result<ChannelKind> channel_kind_from(const std::string& text);

struct Memory {
  std::string name;  ///< such as "node0/host0"
  MemoryKind kind = MemoryKind::host;
  std::int64_t buffer_bytes_max = 0;  ///< what intermediate buffers may take there; 0: none
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
  double latency_s = 0;        ///< of one request, from submission to its end, size aside
  std::vector<int> resources;  ///< indices into Profile::resources
};

struct Profile {
  std::string host;  ///< machine on which it was measured, or the source of the figures
  std::string date;  ///< ISO 8601
  std::string comment;
  std::vector<Memory> memories;
  std::vector<Resource> resources;
  std::vector<ChannelSpec> channels;
  double handoff_s = 0;          ///< from handing a transfer to a worker to its end, size aside
  std::int64_t cache_bytes = 0;  ///< last-level cache: larger copies use streaming stores

  /// Index of the memory of that name, or -1.
  int find_memory(const std::string& name) const;

  std::string to_json() const;
  /// @error invalid_argument with the place in the text if it is not a profile
  static Result<Profile> from_json(const std::string& text);
};

}  // namespace tranship
