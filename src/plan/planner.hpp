// The planners, prepared for one machine.
#pragma once

#include <memory>

#include "plan/plan.hpp"

namespace tranship {

class Graph;

/// Plans on one profile, which must outlive it. What does not depend on the transfer is computed
/// once. Any thread may call; the same query gives the same plan (design: I2).
class Planner {
 public:
  explicit Planner(const Profile& profile);
  ~Planner();
  Planner(Planner&&) noexcept;
  Planner& operator=(Planner&&) noexcept;

  /// @error as of tranship::plan()
  Result<Plan> plan(const PlanQuery& query) const;

 private:
  const Profile* profile_;
  std::unique_ptr<Graph> graph_;
};

}  // namespace tranship
