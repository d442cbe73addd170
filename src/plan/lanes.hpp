// Multi-path transfers: several paths used at the same time.
#pragma once

#include <vector>

#include "plan/cost.hpp"

namespace tranship {

/// The lanes of a transfer with their rates, the best path first. All use one tile. There is one
/// lane if more would not shorten the transfer.
struct LaneChoice {
  std::vector<Candidate> lanes;  ///< bytes_per_second: rate of the lane while the others run
  double seconds = 0;
  double bytes_per_second = 0;  ///< of all lanes
  Binding binding;              ///< bottleneck of the lanes together
};

/// Chooses the lanes and their tile. Each path is the widest one in the capacity that the paths
/// before it leave. The rates are a maximum flow, solved as a linear program over channels and
/// resources: a resource limits the sum over all channels that use it, which a flow over edges
/// alone cannot express. Besides the best path's tile some are tried that give each lane one tile
/// or a few; the predicted time is that at which the last tile of the last lane ends. Paths after
/// the best one leave out the query's closed channels.
LaneChoice choose_lanes(const Graph& graph, const Task& task, Costs& costs, const Candidate& best,
                        int lanes_max);

/// Returns the x >= 0 with the largest sum for which a x <= b, by the simplex method.
/// a: Matrix, row by row. b: Limits, not negative.
std::vector<double> largest_flow(const std::vector<std::vector<double>>& a,
                                 const std::vector<double>& b);

}  // namespace tranship
