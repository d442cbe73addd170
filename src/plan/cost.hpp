// The cost model: predicted time of a transfer along a path with given layouts and tiles.
#pragma once

#include <cmath>
#include <cstdint>
#include <deque>
#include <optional>

#include "plan/graph.hpp"
#include "plan/order.hpp"
#include "plan/plan.hpp"
#include "plan/tile.hpp"

namespace tranship {

/// Largest number of tile slots in a buffer between two hops.
constexpr std::int64_t slots_most = 16;

/// A query with the values that the planner derives from it once.
struct Task {
  const PlanQuery& query;
  Order source;
  Order target;
  Point extents{};
  int rank = 0;
  double bytes = 0;
  bool same_fields = true;  ///< both have the same fields in the same sequence
  bool casts = false;       ///< numbers change their types on the way
  bool reorders = false;    ///< the two orders differ
  bool converts = false;    ///< the two orders or types differ
  bool has_gaps = false;    ///< an end has gaps: no tile there is one run
  bool coarse =
      false;  ///< few tile sizes divide the extents, so that sizes cannot be chosen freely
  bool trades_runs = false;  ///< longer runs at one end mean shorter runs at the other
  std::int64_t common = 0;   ///< contiguous bytes that both orders have in common, without tiles

  Task(const PlanQuery& asked, bool fields_match, bool casts_numbers = false);

  /// Returns whether a hop of the channel may be the one that converts.
  bool may_convert(const ChannelSpec& channel) const {
    return !casts || traits_of(channel.kind).casts;
  }
  /// Returns the target's bytes for each of the source's.
  double growth() const {
    return static_cast<double>(target.point_bytes) / static_cast<double>(source.point_bytes);
  }
};

/// A path with its converting hop and tile, and its predicted time. Buffers have the source's order
/// before the converting hop and the target's after it: no other order of a buffer is faster
/// (docs/decisions/0007).
struct Candidate {
  PlannerKind planner = PlannerKind::full;
  Path path;
  int converting_hop = -1;  ///< -1: the orders are the same
  Point tile{};
  std::int64_t tile_bytes = 0;
  int slots = 0;
  double seconds = INFINITY;
  double bytes_per_second = 0;
  double fill_s = 0;  ///< of one of several lanes: time of a tile beyond that in its slowest hop
  Binding binding;
};

/// The position of a hop on its path.
struct HopRole {
  bool first = false;
  bool last = false;
  bool converts = false;
  bool converted = false;  ///< it reads what a hop before it has converted
};

/// Predicted cost of one tile on one hop.
struct HopCost {
  std::int64_t run_bytes = 0;
  double tile_s = 0;  ///< latency excluded
  double bytes = 0;   ///< of the tile in this hop, on the side that has more of them
};

/// Predicts times for one query. Keeps scratch memory from one call to the next. Threads: one.
class Costs {
 public:
  Costs(const Graph& graph, const Task& task);

  /// Returns the path with its best tile: of all sizes, the smallest that is (nearly) as fast as
  /// any. Sizes that cannot be faster than `seconds_max` are skipped. Returns nothing if no size is
  /// faster, or if the intermediate buffers may not hold a tile.
  std::optional<Candidate> best_tiling(const Path& path, int converting_hop, double seconds_max);

  /// Returns the path with one tile of the most promising size, with equally long runs at both
  /// ends. Faster than best_tiling(): it tries one size.
  std::optional<Candidate> quick_tiling(const Path& path, int converting_hop);

  /// Returns the candidate in tiles that several lanes can share, if it is one kernel launch.
  Candidate in_tiles(const Candidate& candidate);

  /// Returns the candidate in tiles of at most `bytes_max` bytes (at least one point).
  Candidate in_tiles_of(const Candidate& candidate, std::int64_t bytes_max);

  /// Changes one or two extents of the tile at a time while that shortens the predicted time. This
  /// finds tiles that the search by size misses, such as those in which the two orders are equal.
  void refine(Candidate& candidate, int rounds);

  /// Returns the seconds from when a hop may begin until it begins. The caller's thread submits a
  /// GPU's work, or a worker if there are other hops or lanes.
  double start_s(const ChannelSpec& channel, bool among_others) const;

  HopCost hop(int channel, const HopRole& role, const Point& tile) const;
  HopCost hop(const Candidate& candidate, int number) const;

  /// Times of a tile of each size in a channel that converts the layout.
  struct Converting {
    BySize at_least_s{};  ///< lower bound for any tile of that size, including what other hops gain
                          ///< or lose
    BySize common_s{};    ///< time of a tile whose runs are the common ones
  };
  const Converting& converting(int channel);

  /// Return the range [first, end) of tile sizes that matter to this transfer.
  int size_first() const { return size_first_; }
  int size_end() const { return size_end_; }

  /// Returns a lower bound for the time of any transfer with these sums over its hops, for the best
  /// tile size.
  double at_least(const BySize& sum_s, const BySize& beat_s) const;

  /// Returns the lower bound for tiles of one size.
  double at_least(int size, double sum_s, double beat_s) const {
    const auto k = static_cast<std::size_t>(size);
    return narrowest_ * (share_[k] * sum_s + (tiles_[k] - 1) * beat_s);
  }

  /// Returns a lower bound for the time of a tile in the slower one of a first and a last channel:
  /// in a tile, long runs at one end are short ones at the other.
  double ends_s(int first, int last, int size);
  /// Returns the lower bound as far as it follows from larger sizes that were computed already.
  double ends_known_s(int first, int last, int size);

  /// Returns the largest tile on this path in bytes; 0: not even one point fits.
  std::int64_t tile_bytes_max(const Path& path) const;

  /// Returns the bytes that each buffer of the path may take: its share of its memory's budget and
  /// of the transfer's.
  std::int64_t ring_bytes_max(const Path& path) const;

 private:
  BySize common_runs_s(const ChannelSpec& channel) const;
  const BySize& common_runs_at_ends_s();
  /// even: Whether both ends get equally long runs, instead of what their channels need.
  Candidate tiled(const Path& path, int converting_hop, std::int64_t bytes_max, bool even);
  /// Returns whether the copy is one kernel launch in GPU memory, whatever its size.
  bool in_one_launch(const Path& path) const;
  /// Returns whether the copy is one hop in a host's memory that changes the order.
  bool in_memory_alone(const Path& path) const;
  /// Returns that copy with large tiles that span as much at either end, if they are as fast as
  /// far as is known: rates of runs say nothing of lines that tiles share.
  Candidate tiled_in_memory(const Candidate& candidate);
  Candidate launched(const Path& path, int converting_hop);
  void predict(Candidate& candidate);
  int count_slots(const Candidate& candidate) const;
  void sums(const Path& path, int converting_hop, BySize& sum_s, BySize& beat_s);

  const Graph& graph_;
  const Profile& profile_;
  const Task& task_;
  int size_first_ = 0;
  int size_end_ = tile_sizes;
  double narrowest_ = 1;        ///< least bytes of a tile in any hop, as a share of the source's
  BySize tiles_{};              ///< number of tiles of each size in the transfer, at least 1
  BySize share_{};              ///< share of a tile of each size that the transfer fills
  std::vector<double> used_s_;  ///< by resource, for one tile
  /// Tiles that were chosen, by the throughput functions of their ends (-1: none) and their size.
  struct KnownTile {
    int first = -1;
    int last = -1;
    std::int64_t bytes_max = 0;
    TileChoice choice;
  };
  const TileChoice& tile_for(int first, int last, std::int64_t bytes_max);
  /// Lower bounds for the slower one of two ends, by tile size.
  struct KnownEnds {
    int first = 0;
    int last = 0;
    BySize least_s{};
  };
  KnownEnds& ends_of(int first, int last);
  std::vector<KnownEnds> ends_;
  std::deque<KnownTile> tiles_chosen_;
  struct KnownConverting {
    int function = 0;
    int loop = -1;  ///< of a channel that gathers: the channel that copies for it
    Converting converting;
  };
  std::deque<KnownConverting> converting_;  ///< computed so far
  std::optional<BySize> at_ends_s_;
};

}  // namespace tranship
