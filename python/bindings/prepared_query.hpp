// A planner's query with everything that planning it needs, for loops that plan it many times.
#pragma once

#include <memory>
#include <utility>

#include "base/error.hpp"
#include "machine/profile.hpp"
#include "plan/cache.hpp"
#include "plan/planner.hpp"

namespace tranship::python {

/// A query with its machine profile, a planner, and a cache that has its plan. For one thread.
class PreparedQuery {
 public:
  PreparedQuery(Profile profile, PlanQuery query)
      : profile_(std::move(profile)), query_(std::move(query)), planner_(profile_) {}
  PreparedQuery(const PreparedQuery&) = delete;
  PreparedQuery& operator=(const PreparedQuery&) = delete;

  /// Plans the query again.
  Status plan() const {
    auto made = planner_.plan(query_);
    return made ? Status{} : Status(made.error());
  }
  /// Adds the plan to the cache.
  Status keep() {
    auto made = planner_.plan(query_);
    if (!made) return made.error();
    cache_.add(query_, std::make_shared<const Plan>(std::move(*made)));
    return {};
  }
  /// Returns whether the cache has the plan.
  bool find() { return cache_.find(query_) != nullptr; }

 private:
  Profile profile_;
  PlanQuery query_;
  Planner planner_;
  PlanCache cache_;
};

}  // namespace tranship::python
