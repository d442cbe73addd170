// A planner for one machine.
#pragma once

#include <memory>

#include "plan/plan.hpp"

namespace tranship {

class Graph;

/// Plans transfers on one profile, which must outlive it. Computes once what does not depend on the
/// transfer. The same query gives the same plan (design: I2). Threads: all.
class Planner {
 public:
  explicit Planner(const Profile& profile);
  ~Planner();
  Planner(Planner&&) noexcept;
  Planner& operator=(Planner&&) noexcept;

  /// Plans one transfer.
  /// @error as tranship::plan()
  Result<Plan> plan(const PlanQuery& query) const;

 private:
  const Profile* profile_;
  std::unique_ptr<Graph> graph_;
};

}  // namespace tranship
