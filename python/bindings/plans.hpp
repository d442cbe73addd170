// A plan, as Python gets it.
#pragma once

#include <memory>
#include <utility>

#include "order.hpp"

namespace tranship::python {

/// A plan and the engine, whose profile describes the plan's channels.
struct BoundPlan {
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<Engine> engine;

  const Profile& profile() const { return engine->profile(); }
};

/// Returns a plan for Python. plan: Null for a copy of nothing, whose plan has no hops.
inline BoundPlan bound_plan(std::shared_ptr<const Plan> plan, std::shared_ptr<Engine> engine) {
  if (!plan) plan = std::make_shared<const Plan>();
  return {std::move(plan), std::move(engine)};
}

}  // namespace tranship::python
