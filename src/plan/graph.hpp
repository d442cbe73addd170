// The transfer graph (Isometry 4.1), prepared for planning: what can be known of the ways to each
// memory before any transfer is asked for.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "machine/profile.hpp"

namespace tranship {

/// Sizes of tiles that are tried: powers of two, from 64 B to 64 MiB. They bound what a more urgent
/// transfer may have to wait for, and a memory's threshold bounds them. Those below 16 KiB are for
/// transfers and memories that have no room for more.
inline constexpr int tile_sizes = 21;
inline constexpr int tile_size_usual = 8;
inline constexpr std::int64_t tile_size(int index) { return std::int64_t{64} << index; }

/// One number for each size of a tile.
using BySize = std::array<double, tile_sizes>;

/// Most hops of a path. A longer way through a machine has not been seen to pay.
inline constexpr int hops_max = 10;

/// Channels in order.
struct Path {
  std::array<int, hops_max> channels{};
  int count = 0;
  void add(int channel) { channels[static_cast<std::size_t>(count++)] = channel; }
};

/// What the remaining way to one target costs at least, from each memory.
struct Remaining {
  struct From {
    int hops = -1;          ///< fewest hops; -1: no way
    int next_channel = -1;  ///< of a shortest way that is as wide as such ways get
    double width = 0;       ///< the peak rate of that way's narrowest channel
    BySize sum_s{};         ///< least sum of latencies and times of a tile over the hops
    BySize beat_s{};        ///< least time of a tile in the slowest hop
  };
  std::vector<From> from;  ///< by memory
};

/// Immutable after construction but for remaining(), which is computed once for each target. Any
/// thread may call.
class Graph {
 public:
  explicit Graph(const Profile& profile);

  /// Channels that leave a memory, the widest first.
  const std::vector<int>& leaving(int memory) const {
    return leaving_[static_cast<std::size_t>(memory)];
  }
  /// Time of a contiguous tile of each size, latency excluded.
  const BySize& tile_s(int channel) const { return tile_s_[static_cast<std::size_t>(channel)]; }
  /// Channels of the same throughput function have the same number.
  int function(int channel) const { return functions_[static_cast<std::size_t>(channel)]; }
  /// The memory's own channel for conversions, or -1.
  int self_loop(int memory) const { return self_loop_[static_cast<std::size_t>(memory)]; }
  const Remaining& remaining(int target) const;

  /// The path of the fewest hops, the widest among those; empty: there is none.
  Path shortest(int source, int target) const;

  /// The largest threshold that a memory sets.
  std::int64_t tile_bytes_most() const { return tile_bytes_most_; }
  /// What the memory with the least room for buffers has.
  std::int64_t buffer_bytes_least() const { return buffer_bytes_least_; }

  const Profile& profile() const { return profile_; }

 private:
  std::unique_ptr<Remaining> measure(int target) const;

  const Profile& profile_;
  std::int64_t tile_bytes_most_ = 0;
  std::int64_t buffer_bytes_least_ = INT64_MAX;
  std::vector<std::vector<int>> leaving_;
  std::vector<BySize> tile_s_;
  std::vector<int> functions_;
  std::vector<int> self_loop_;
  mutable std::vector<std::once_flag> measured_;
  mutable std::vector<std::unique_ptr<Remaining>> remaining_;
};

}  // namespace tranship
