// The transfer graph (Isometry 4.1) with what can be computed of the paths to each memory before a
// transfer is planned.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "machine/profile.hpp"

namespace tranship {

/// Number of tile sizes that are tried: powers of two from 64 B to 64 MiB. A more urgent transfer
/// may have to wait for one tile. Sizes above a memory's threshold are not used there; those below
/// 16 KiB are for small transfers and small memories.
inline constexpr int tile_sizes = 21;
inline constexpr int tile_size_usual = 8;
inline constexpr std::int64_t tile_size(int index) { return std::int64_t{64} << index; }

/// One number for each tile size.
using BySize = std::array<double, tile_sizes>;

/// Largest number of hops of a path. No machine has been seen where a longer path was faster.
inline constexpr int hops_max = 10;

/// A path: its channels in order.
struct Path {
  std::array<int, hops_max> channels{};
  int count = 0;
  void add(int channel) { channels[static_cast<std::size_t>(count++)] = channel; }
};

/// Lower bounds for the cost of the paths from each memory to one target.
struct Remaining {
  struct From {
    int hops = -1;          ///< smallest number of hops; -1: there is no path
    int next_channel = -1;  ///< first channel of the widest among the shortest paths
    double width = 0;       ///< peak rate of that path's narrowest channel
    BySize sum_s{};         ///< least sum over the hops of latency and time of a tile
    BySize beat_s{};        ///< least time of a tile in the slowest hop
  };
  std::vector<From> from;  ///< for each memory
};

/// Immutable after construction, except that remaining() is computed once for each target.
/// Threads: all.
class Graph {
 public:
  explicit Graph(const Profile& profile);

  /// Returns the channels whose source is `memory`, the widest first.
  const std::vector<int>& leaving(int memory) const {
    return leaving_[static_cast<std::size_t>(memory)];
  }
  /// Returns the time of a contiguous tile of each size, without latency.
  const BySize& tile_s(int channel) const { return tile_s_[static_cast<std::size_t>(channel)]; }
  /// Returns the number of the channel's throughput function, equal for channels with equal ones.
  int function(int channel) const { return functions_[static_cast<std::size_t>(channel)]; }
  /// Returns the channel that converts layouts within the memory, or -1.
  int self_loop(int memory) const { return self_loop_[static_cast<std::size_t>(memory)]; }
  /// Returns the lower bounds for the paths to `target`.
  const Remaining& remaining(int target) const;

  /// Returns the widest among the paths with the fewest hops; empty if there is no path.
  Path shortest(int source, int target) const;

  /// Returns the largest threshold of any memory, in bytes.
  std::int64_t tile_bytes_most() const { return tile_bytes_most_; }
  /// Returns the smallest buffer budget of any memory, in bytes.
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
