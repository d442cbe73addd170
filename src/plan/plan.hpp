// Which way a transfer goes. plan() is a pure function of the query and the profile (design: I2).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "data/loop_nest.hpp"
#include "data/mapping.hpp"
#include "machine/profile.hpp"

namespace tranship {

/// How a path is chosen.
enum class PlannerKind {
  automatic,  ///< simple; full where what it may save is worth its own time
  full,       ///< the least predicted time over all paths, layouts and blockings (Isometry 4.2)
  simple,     ///< shortest path, conversion always in a memcpy-class hop (Isometry 4.4)
  spsl,       ///< shortest path, intermediate buffers in the source's layout (Isometry 6.3)
  spdl,       ///< shortest path, intermediate buffers in the target's layout (Isometry 6.3)
};

const char* to_string(PlannerKind kind);
Result<PlannerKind> planner_kind_from(const std::string& text);

struct PlanQuery {
  View source;
  View target;  ///< dimension k is the source's dimension k, and the extents are equal
  int source_memory = 0;
  int target_memory = 0;
  PlannerKind planner = PlannerKind::automatic;
  /// Bytes that the intermediate buffers of this transfer may take in all. 0: what the memories'
  /// buffer_bytes_max allow.
  std::int64_t buffer_bytes_max = 0;
  /// `automatic` plans fully from this size on (the paper takes 16 MB). 0: by predicted cost.
  std::int64_t full_from_bytes = 0;
  /// Most paths that may be used at once.
  int lanes_max = 1;
  /// By channel: seconds of work that would go before this transfer. Empty: the machine is idle.
  std::vector<double> waiting_s;
  /// The memories to pass through, from source to target; empty: the planner chooses them.
  std::vector<int> through;
};

/// One step of a path at plan time.
struct Hop {
  int channel = 0;  ///< index into Profile::channels
  int source_memory = 0;
  int target_memory = 0;
  std::shared_ptr<const Mapping> source;  ///< of the whole array, or of a slot between two hops
  std::shared_ptr<const Mapping> target;
  std::vector<int> fields;      ///< source field of each target field; empty: the same number
  bool converts = false;        ///< the two layouts differ
  std::int64_t run_bytes = 0;   ///< contiguous bytes that the channel sees in a tile
  double bytes_per_second = 0;  ///< predicted for one tile after another
  double tile_s = 0;            ///< predicted time of one tile
};

/// One path of a plan: the first of its hops reads the source, the last writes the target. All
/// lanes move tiles of one shape, and take them from one dispenser.
struct Lane {
  int first_hop = 0;  ///< index into Plan::hops
  int hop_count = 0;
  double bytes_per_second = 0;  ///< predicted, beside the other lanes
};

/// A way that was not taken.
struct Alternative {
  PlannerKind planner = PlannerKind::full;  ///< which found it
  std::vector<int> memories;                ///< in order
  int converting_hop = -1;                  ///< -1: none converts
  double seconds = 0;
};

/// What limits the rate of a plan: the channel, or if that is -1 the resource.
struct Binding {
  int channel = -1;
  int resource = -1;
};

struct Plan {
  std::vector<Hop> hops;    ///< lane after lane
  std::vector<Lane> lanes;  ///< at least one
  PlannerKind planner = PlannerKind::simple;
  Point corner_source{};
  Point corner_target{};
  Point extents{};
  Point tile{};  ///< extents of one tile: the blocking factors
  std::int64_t bytes = 0;
  std::int64_t tile_bytes = 0;
  std::int64_t tiles = 0;
  int slots = 0;                ///< tile slots in each ring between two hops
  double seconds = 0;           ///< predicted: waiting, fill, latencies and bottleneck
  double bytes_per_second = 0;  ///< the steady rate of all lanes: what a long transfer tends to
  Binding binding;
  std::vector<Alternative> alternatives;
  bool direct = false;          ///< one hop, shorter than a hand-off: the caller's thread runs it
  std::vector<LoopNest> nests;  ///< of the whole region, if direct

  /// "node0/file0 > node0/host0 > node0/host0": the memories of a lane in order.
  std::string path(const Profile& profile, std::size_t lane = 0) const;
  /// The name of the channel or resource that limits the rate.
  const std::string& bound_by(const Profile& profile) const;
};

/// @error no_route if no chain of channels joins the memories; invalid_argument if the fields
/// differ; out_of_memory if no intermediate buffer that holds a tile is allowed
Result<Plan> plan(const PlanQuery& query, const Profile& profile);

/// Lets a plan go in tiles of other extents, with intermediate buffers that hold one, and no longer
/// in the caller's thread. The predicted times stay those of the tiles before.
void retile(Plan& plan, const Point& tile);

/// The plan in words: hops, layouts, tiles, predicted time, what binds, what it beat.
std::string explain(const Plan& plan, const Profile& profile);
/// The same as JSON, with the keys of `tranship plan --json`.
std::string explain_json(const Plan& plan, const Profile& profile);

}  // namespace tranship
