// The plans of simulated copies, one for each class of equal copies.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/clock.hpp"
#include "plan/plan.hpp"
#include "plan/planner.hpp"
#include "simulator/hardware.hpp"

namespace tranship {

/// The route of all copies of one class: one plan, or one plan for each hop with whole instances as
/// intermediate buffers.
struct Route {
  /// The plan; for a whole copy, a plan of a single hop for each hop of its path.
  std::vector<std::shared_ptr<const Plan>> plans;
  bool whole = false;
  /// For a whole copy: profile numbers of the memories of its intermediate instances.
  std::vector<int> instances;
  std::int64_t bytes = 0;
  std::uint64_t number = 0;  ///< number of the class
};

/// The copy for which a route is needed.
struct RouteQuery {
  MemoryOfNode source;
  MemoryOfNode target;
  std::shared_ptr<const Mapping> source_mapping;
  std::shared_ptr<const Mapping> target_mapping;
  PlannerKind planner = PlannerKind::automatic;
  int lanes_max = 1;
  std::vector<MemoryOfNode> through;
  bool whole = false;
};

/// Plans copies with the real planner on the profile of the end points' nodes, which is the same
/// for all nodes, so that planning does not grow with the cluster. Threads: one.
class Routes {
 public:
  struct PerNode {
    std::int64_t full = 0;
    std::int64_t simple = 0;
    std::int64_t other = 0;
  };
  struct Counters {
    PerNode planned;  ///< number of plans made, by planner
    std::int64_t cached = 0;
    double planning_s = 0;  ///< wall time of planning
    /// Plans that each node would have made with a cache of its own, in which the end points'
    /// memories are part of the key (Isometry 4.2 and table 6).
    std::map<int, PerNode> by_node;
  };

  Routes(const Hardware& hardware, const Clock& clock, std::int64_t full_from_bytes);

  /// Returns the route of a copy.
  /// @error invalid_argument for an empty copy, or a path through other nodes than those of the
  ///        ends; out_of_memory if no memory on the path has room for a whole instance; as plan()
  Result<const Route*> find(const RouteQuery& query);

  static NodePair nodes_of(const RouteQuery& query);
  const Counters& counters() const { return counters_; }

 private:
  Result<PlanQuery> plan_query(const RouteQuery& query) const;
  Result<Route> make(const RouteQuery& query);
  Result<Route> make_whole(const PlanQuery& query, bool two_nodes, Plan along);
  void count(const RouteQuery& query, const Route& route);
  const Planner& planner(bool two_nodes) const {
    return two_nodes ? *between_nodes_ : *inside_node_;
  }

  const Hardware& hardware_;
  const Clock& clock_;
  std::int64_t full_from_bytes_ = 0;
  std::optional<Planner> inside_node_;
  std::optional<Planner> between_nodes_;
  std::unordered_map<std::string, std::unique_ptr<const Route>> routes_;
  std::unordered_set<std::uint64_t> seen_;  ///< ends and classes of earlier queries
  Counters counters_;
};

}  // namespace tranship
