// Plans by the shape of the query, not by address. What waits in the channels is part of a query,
// so that plans for a busy machine are found only while it is as busy.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "plan/plan.hpp"

namespace tranship {

/// Bounded: sets of four, the oldest of a set goes. Any thread may call; a find costs one hash of
/// numbers that the query already has, and one comparison.
class PlanCache {
 public:
  explicit PlanCache(std::size_t sets = 1024) : sets_(sets) {}

  std::shared_ptr<const Plan> find(const PlanQuery& query);
  /// The same without waiting: null also if another thread is in the cache at the moment.
  std::shared_ptr<const Plan> find_now(const PlanQuery& query);
  void add(const PlanQuery& query, std::shared_ptr<const Plan> plan);
  void clear();

  struct Counters {
    std::int64_t hits = 0;
    std::int64_t misses = 0;
  };
  Counters counters() const;

 private:
  struct Entry {
    std::uint64_t hash = 0;
    PlanQuery query;
    std::shared_ptr<const Plan> plan;
  };
  struct Set {
    std::array<Entry, 4> entries;
    std::size_t next = 0;
  };
  std::shared_ptr<const Plan> find_in_set(std::uint64_t hash, const PlanQuery& query);
  Set& set_of(std::uint64_t hash) { return sets_[hash % sets_.size()]; }

  mutable std::mutex mutex_;
  std::vector<Set> sets_;
  Counters counters_;
};

}  // namespace tranship
