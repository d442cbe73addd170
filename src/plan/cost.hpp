// What a way costs: predicted time of a transfer along a path with given layouts and tiles.
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

/// Tile slots of a ring, at most.
constexpr std::int64_t slots_most = 16;

/// A query, digested once.
struct Task {
  const PlanQuery& query;
  Order source;
  Order target;
  Point extents{};
  int rank = 0;
  double bytes = 0;
  bool same_fields = true;  ///< both have the same fields in the same sequence
  bool converts = false;    ///< the two orders differ
  bool has_gaps = false;    ///< an end's runs are short of the whole, whatever the order
  bool coarse = false;  ///< few tiles divide the extents: their sizes are far from any asked for
  bool trades_runs = false;  ///< a tile may have longer runs at one end for shorter at the other
  std::int64_t common = 0;   ///< contiguous bytes that both have in common, tiles aside

  Task(const PlanQuery& asked, bool fields_match);
};

/// A way that could be taken. Buffers are in the source's order before the converting hop and in
/// the target's after it: no other order of any buffer is faster (docs/decisions/0007).
struct Candidate {
  PlannerKind planner = PlannerKind::full;
  Path path;
  int converting_hop = -1;  ///< -1: the orders are the same
  Point tile{};
  std::int64_t tile_bytes = 0;
  int slots = 0;
  double seconds = INFINITY;
  double bytes_per_second = 0;
  Binding binding;
};

/// Where a hop stands on its path.
struct HopRole {
  bool first = false;
  bool last = false;
  bool converts = false;
};

struct HopCost {
  std::int64_t run_bytes = 0;
  double tile_s = 0;  ///< latency excluded
};

/// Not thread-safe: it keeps scratch space from one call to the next.
class Costs {
 public:
  Costs(const Graph& graph, const Task& task);

  /// The best tile for a path with its converting hop: of all sizes, the smallest that is (nearly)
  /// as fast as any. Sizes that cannot beat `seconds_max` are passed over.
  /// @return nothing if none can, or the intermediate buffers may not hold a tile
  std::optional<Candidate> best_tiling(const Path& path, int converting_hop, double seconds_max);

  /// One tile alone, of the size that promises most and with equally long runs at both ends: quick.
  std::optional<Candidate> quick_tiling(const Path& path, int converting_hop);

  /// The same way in tiles that several lanes can share, where it is one launch.
  Candidate in_tiles(const Candidate& candidate);

  /// Changes the tile's extents one or two at a time, as long as it gains: what no size or rate
  /// says, such as tiles in which the two orders are the same.
  void refine(Candidate& candidate, int rounds);

  /// From when a hop may begin until it does. A GPU is handed its work by the caller, unless there
  /// are other hops or lanes: then by a worker.
  double start_s(const ChannelSpec& channel, bool among_others) const;

  HopCost hop(int channel, const HopRole& role, const Point& tile) const;
  HopCost hop(const Candidate& candidate, int number) const;

  /// Time of a tile of each size in a channel that converts.
  struct Converting {
    BySize at_least_s{};  ///< of any tile of that size, the other hops' gain or loss counted here
    BySize common_s{};    ///< of one whose runs are the common ones
  };
  const Converting& converting(int channel);

  /// The sizes of tiles that can matter to this transfer: from the first to before the end.
  int size_first() const { return size_first_; }
  int size_end() const { return size_end_; }

  /// No transfer with these sums over its hops takes less, for the best size of a tile.
  double at_least(const BySize& sum_s, const BySize& beat_s) const;

  /// The same for tiles of one size.
  double at_least(int size, double sum_s, double beat_s) const {
    const auto k = static_cast<std::size_t>(size);
    return share_[k] * sum_s + (tiles_[k] - 1) * beat_s;
  }

  /// Time of a tile of a size in the slower of a first and a last channel, at least: in a tile,
  /// long runs at one end are short ones at the other.
  double ends_s(int first, int last, int size);
  /// The same, as far as a larger size has told already; costs nothing.
  double ends_known_s(int first, int last, int size);

  /// Bytes that a tile on this path may have; 0: not even one point.
  std::int64_t tile_bytes_max(const Path& path) const;

  /// Bytes that each ring of the path may take: its share of its memory's budget, and of the
  /// transfer's.
  std::int64_t ring_bytes_max(const Path& path) const;

 private:
  BySize common_runs_s(const ChannelSpec& channel) const;
  const BySize& common_runs_at_ends_s();
  /// @param even whether both ends get equally long runs, rather than what their channels need
  Candidate tiled(const Path& path, int converting_hop, std::int64_t bytes_max, bool even);
  /// In GPU memory a copy is one launch, whatever its size.
  bool in_one_launch(const Path& path) const;
  Candidate launched(const Path& path, int converting_hop);
  void predict(Candidate& candidate);
  int count_slots(const Candidate& candidate) const;
  void sums(const Path& path, int converting_hop, BySize& sum_s, BySize& beat_s);

  const Graph& graph_;
  const Profile& profile_;
  const Task& task_;
  int size_first_ = 0;
  int size_end_ = tile_sizes;
  BySize tiles_{};              ///< how many tiles of each size the transfer has, at least 1
  BySize share_{};              ///< of a tile of each size that the whole transfer fills
  std::vector<double> used_s_;  ///< by resource, for one tile
  /// Tiles that were chosen, by the throughput functions of their ends (-1: none) and their size.
  struct KnownTile {
    int first = -1;
    int last = -1;
    std::int64_t bytes_max = 0;
    TileChoice choice;
  };
  const TileChoice& tile_for(int first, int last, std::int64_t bytes_max);
  /// What the tiles of two ends have told of the time that the slower end takes at least.
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
  std::deque<KnownConverting> converting_;  ///< those that were asked for
  std::optional<BySize> at_ends_s_;
};

}  // namespace tranship
