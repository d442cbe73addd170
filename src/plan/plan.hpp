// Plans: the paths, layouts and tiles of a transfer. plan() is a pure function of the query and the
// profile (design: I2).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "data/loop_nest.hpp"
#include "data/lowering.hpp"
#include "data/mapping.hpp"
#include "machine/profile.hpp"

namespace tranship {

/// How a path is chosen. To add a planner, add its name in explain.cpp and its choice in
/// planner.cpp.
enum class PlannerKind {
  automatic,  ///< full where it may save more time than it takes, else simple
  full,       ///< least predicted time over all paths, layouts and blockings (Isometry 4.2)
  simple,     ///< shortest path, conversion always in a memcpy-class hop (Isometry 4.4)
  spsl,       ///< shortest path, intermediate buffers in the source's layout (Isometry 6.3)
  spdl,       ///< shortest path, intermediate buffers in the target's layout (Isometry 6.3)
};

/// Returns the name of the planner, such as "spsl".
const char* to_string(PlannerKind kind);
/// Returns the planner of that name.
/// @error invalid_argument if there is none
Result<PlannerKind> planner_kind_from(const std::string& text);

/// One transfer that is to be planned.
struct PlanQuery {
  View source;
  View target;  ///< dimension k is the source's dimension k, and the extents are equal
  int source_memory = 0;
  int target_memory = 0;
  PlannerKind planner = PlannerKind::automatic;
  Casting casting = Casting::none;  ///< which changes of the numbers' types are allowed
  /// Bytes that all intermediate buffers of this transfer may take. 0: the memories'
  /// buffer_bytes_max alone limit them.
  std::int64_t buffer_bytes_max = 0;
  /// Size in bytes from which `automatic` plans fully (16 MB in the paper). 0: it decides by
  /// predicted cost.
  std::int64_t full_from_bytes = 0;
  /// Largest number of paths that are used at the same time.
  int lanes_max = 1;
  /// Where one channel of a GPU joins the two memories, it alone carries the copy, whatever is
  /// predicted of other ways: only after a copy of one hop does later work of a stream wait.
  bool one_hop = false;
  /// For each channel, seconds of work that is queued before this transfer. Empty: the machine is
  /// idle.
  std::vector<double> waiting_s;
  /// Channels that no lane but the first may use, in ascending order: other processes use them.
  std::vector<int> closed_channels;
  /// Memories to pass through, from source to target; empty: the planner chooses them.
  std::vector<int> through;
};

/// One step of a path: a channel, and the layouts on both its sides.
struct Hop {
  int channel = 0;  ///< index into Profile::channels
  int source_memory = 0;
  int target_memory = 0;
  std::shared_ptr<const Mapping> source;  ///< of the whole array, or of a slot of a buffer
  std::shared_ptr<const Mapping> target;
  std::vector<int> fields;      ///< source field of each target field; empty: the same number
  bool converts = false;        ///< the two layouts or types differ
  bool casts = false;           ///< numbers change their types here
  std::int64_t run_bytes = 0;   ///< contiguous bytes of a tile in this channel
  double bytes_per_second = 0;  ///< predicted, for tiles one after another
  double tile_s = 0;            ///< predicted time of one tile

  /// Returns how its tiles are lowered.
  Numbers numbers() const { return casts ? Numbers::converted : Numbers::as_they_are; }
};

/// One path of a plan: its first hop reads the source, its last hop writes the target. All lanes of
/// a plan move tiles of one shape, and take them from a common counter.
struct Lane {
  int first_hop = 0;  ///< index into Plan::hops
  int hop_count = 0;
  double bytes_per_second = 0;  ///< predicted, beside the other lanes
  /// Predicted seconds that a tile takes beyond its time in the lane's slowest hop.
  double fill_s = 0;
};

/// A path that the planner considered and did not choose.
struct Alternative {
  PlannerKind planner = PlannerKind::full;  ///< planner that found it
  std::vector<int> memories;                ///< from source to target
  int converting_hop = -1;  ///< number of the hop that converts the layout; -1: none
  double seconds = 0;
};

/// The bottleneck of a plan: a channel, or, if `channel` is -1, a resource.
struct Binding {
  int channel = -1;
  int resource = -1;
};

/// The planner's choice for one transfer.
struct Plan {
  std::vector<Hop> hops;    ///< lane after lane
  std::vector<Lane> lanes;  ///< at least one
  PlannerKind planner = PlannerKind::simple;
  Point corner_source{};
  Point corner_target{};
  Point extents{};
  Point tile{};            ///< extents of one tile: the blocking factors
  std::int64_t bytes = 0;  ///< of the source, as those of a tile
  std::int64_t tile_bytes = 0;
  std::int64_t tiles = 0;
  int slots = 0;                ///< tile slots in each ring between two hops
  double seconds = 0;           ///< predicted: queueing, pipeline fill, latencies and bottleneck
  double bytes_per_second = 0;  ///< steady rate of all lanes, which long transfers approach
  Binding binding;
  std::vector<Alternative> alternatives;
  std::vector<int> closed_channels;  ///< PlanQuery::closed_channels, where lanes were looked for
  bool direct =
      false;  ///< the caller's thread runs the single hop, which is shorter than a hand-off
  std::vector<LoopNest> nests;  ///< of the whole region, if direct

  /// Returns the memories of a lane in order, such as "node0/file0 > node0/host0 > node0/host0".
  std::string path(const Profile& profile, std::size_t lane = 0) const;
  /// Returns the name of the channel or resource that limits the rate.
  const std::string& bound_by(const Profile& profile) const;
};

/// Plans one transfer.
/// @error no_route if no chain of channels joins the memories; invalid_argument if the fields
/// differ; out_of_memory if no intermediate buffer that holds a tile is allowed
Result<Plan> plan(const PlanQuery& query, const Profile& profile);

/// Changes the extents of a plan's tiles and the slots of its buffers, and lets workers run it. The
/// predicted times stay those of the old tiles.
void retile(Plan& plan, const Point& tile);

/// Returns the plan as text: hops, layouts, tiles, predicted time, bottleneck and alternatives.
std::string explain(const Plan& plan, const Profile& profile);
/// Returns the plan as JSON, with the keys of `tranship plan --json`.
std::string explain_json(const Plan& plan, const Profile& profile);

}  // namespace tranship
