// Simulated times of plans on a profile's channels, for tests of the planner's predictions.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace tranship::test {

/// Returns a profile of machines/; of a cluster, the neighbourhood of two nodes.
Profile machine_of(const std::string& name);

/// Returns the virtual seconds that the plan takes on idle channels with the profile's rates. No
/// bytes are moved.
double simulated_s(const Plan& plan, const Profile& profile);

/// Returns tiles of many sizes for the query: those that choose_tile() makes of powers of two and
/// of fractions of the transfer, at most `tiles_most` of them.
std::vector<Point> tiles_of(const PlanQuery& query, const Profile& profile, const Plan& plan,
                            std::int64_t tiles_most);

/// Returns `plan` changed to carry the box of `query`, in tiles of these extents. Runs and times of
/// its hops become those of the new tile.
Plan with_tile(const Plan& plan, const PlanQuery& query, const Profile& profile, const Point& tile);

}  // namespace tranship::test
