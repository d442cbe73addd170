// Several paths at once, where no saturated channel or resource is shared.
#pragma once

#include <vector>

#include "plan/cost.hpp"

namespace tranship {

/// The paths that a transfer should use beside each other, `best` first, with their rates; all have
/// its tile. One path alone, if more would not shorten the transfer.
struct LaneChoice {
  std::vector<Candidate> lanes;  ///< bytes_per_second: of this lane beside the others
  double seconds = 0;
  double bytes_per_second = 0;  ///< of all lanes
  Binding binding;              ///< what the lanes together use most
};

/// Paths are found by augmenting: the widest in what the ones before have left over. The rates are
/// a maximum flow of them over channels and resources, as a linear program: a resource limits the
/// sum over all channels that use it, which no flow over edges alone can say.
LaneChoice choose_lanes(const Graph& graph, const Task& task, Costs& costs, const Candidate& best,
                        int lanes_max);

/// The x >= 0 that maximises its sum with a x <= b (b >= 0), by the simplex method. a: row by row.
std::vector<double> largest_flow(const std::vector<std::vector<double>>& a,
                                 const std::vector<double>& b);

}  // namespace tranship
