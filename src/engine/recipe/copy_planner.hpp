// From two arrays to a plan.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/config.hpp"
#include "engine/array.hpp"
#include "engine/copy_options.hpp"
#include "engine/link_usage.hpp"
#include "machine/profile.hpp"
#include "plan/cache.hpp"
#include "plan/planner.hpp"

namespace tranship {

/// Checks the two ends of a copy, finds their memories in a profile and plans the way between them.
/// Owns the planner and its cache. The profile, the settings and `links`, which is null where
/// the uses of links are not known, must outlive it. Threads: all.
class CopyPlanner {
 public:
  CopyPlanner(const Profile& profile, const Config& config, std::size_t gpu_count,
              const LinkUsage* links);

  /// Returns the query of a copy. Does not look whether the arrays overlap. in_streams: Whether
  /// the copy may be put into streams, so that one hop is preferred.
  /// @error as check_pair(); invalid_argument for a negative limit of buffers; no_route if the
  ///        profile lacks a memory
  Result<PlanQuery> query_of(const Array& source, const Array& target, const CopyOptions& options,
                             bool in_streams) const;

  /// Returns the plan, from the cache if it is there.
  Result<std::shared_ptr<const Plan>> plan_of(const PlanQuery& query);

 private:
  int memory_of(const Array& array) const;

  const Profile& profile_;
  const Config& config_;
  const LinkUsage* links_;
  Planner planner_;
  PlanCache cache_;
  /// The profile's number of the memory of each kind, but for devices; -1: none.
  std::array<int, memory_kind_count> memories_{};
  std::vector<int> device_memories_;  ///< the profile's number of each GPU's; -1: none
};

}  // namespace tranship
