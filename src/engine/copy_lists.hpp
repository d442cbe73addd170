// Copies of lists of places along one path.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/indexed_nest.hpp"
#include "engine/copy_runner.hpp"

namespace tranship {

/// The path that a list takes.
struct ListPath {
  std::shared_ptr<const Plan> plan;
  bool one_launch = false;      ///< One hop of a GPU carries the whole list at once.
  std::int64_t tile_bytes = 0;  ///< Most bytes of an entry: a buffer between two hops holds them.
};

/// Plans the path of a list whose bytes count as the box of `query`.
Result<ListPath> path_of_list(CopyRunner& runner, const PlanQuery& query);

/// How a list is carried.
struct ListPlan {
  std::shared_ptr<const Plan> plan;   ///< of one copy of an indexed nest; null: there are runs
  CopyPair ends;                      ///< what the list's offsets count from
  std::vector<CopyPair> runs;         ///< copies of their own
  std::optional<RunList> run_list{};  ///< What one launch carries in place of an indexed nest.
};

/// Whether a list of so many runs of up to `bytes_most` bytes goes as RunList: one launch that
/// starts now carries it.
bool goes_as_run_list(const ListPath& path, const CopyOptions& options, std::size_t count,
                      std::int64_t bytes_most);

/// Returns the plan of runs, which refer to lists that outlive the copy's start.
ListPlan plan_run_list(const ListPath& path, CopyPair ends, const RunList& runs);

/// Cuts the lists of `copy`, which are complete, into tiles of the path, and returns their plan. No
/// entry is longer than the path allows.
ListPlan plan_list(const ListPath& path, CopyPair ends, const CopyOptions& options,
                   IndexedCopy& copy);

/// Carries what a plan of a list says; `copy` has the list.
/// @error as CopyRunner::carry()
Result<Event> carry_list(CopyRunner& runner, const ListPlan& plan, const CopyOptions& options,
                         IndexedCopy& copy);

}  // namespace tranship
