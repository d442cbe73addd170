// A cache of plans. The key is the whole query: mappings, boxes, memories, the work that is
// queued in the channels and the channels that other processes use, but no addresses.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "plan/plan.hpp"

namespace tranship {

/// Set-associative, with four plans in a set; a new plan replaces the oldest of its set. Threads:
/// all. A lookup costs one hash of numbers that the query already contains, and one comparison.
class PlanCache {
 public:
  explicit PlanCache(std::size_t sets = 1024) : sets_(sets) {}

  /// Returns the plan of the query; null if the cache does not have it.
  std::shared_ptr<const Plan> find(const PlanQuery& query);
  void add(const PlanQuery& query, std::shared_ptr<const Plan> plan);

 private:
  struct CachedPlan {
    std::uint64_t hash = 0;
    PlanQuery query;
    std::shared_ptr<const Plan> plan;
  };
  struct Set {
    std::array<CachedPlan, 4> entries;
    std::size_t next = 0;
  };
  Set& set_of(std::uint64_t hash) { return sets_[hash % sets_.size()]; }

  std::mutex mutex_;  ///< guards the sets
  std::vector<Set> sets_;
};

}  // namespace tranship
