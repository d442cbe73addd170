// The path of a list of places, whose bytes count as those of one box.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "data/indexed_nest.hpp"
#include "plan/plan.hpp"

namespace tranship {

class RecipeMaker;
struct RecipeUse;

struct ListPath {
  std::shared_ptr<const Plan> plan;
  bool one_launch = false;      ///< One hop of a GPU carries the whole list at once.
  std::int64_t tile_bytes = 0;  ///< Most bytes of an entry: a buffer between two hops holds them.
};

/// Plans the path of a list whose bytes count as the box of `query`.
/// @error as Planner::plan()
Result<ListPath> path_of_list(RecipeMaker& maker, const PlanQuery& query);

/// Returns whether a list of so many runs of up to `bytes_most` bytes is carried as a RunList: by
/// one launch, which starts while the caller's lists are still there.
bool goes_as_run_list(const ListPath& path, const RecipeUse& use, std::size_t count,
                      std::int64_t bytes_most);

/// Ends the changes of lists, and cuts them into tiles of the path.
void finish(const ListPath& path, IndexedCopy& lists);

}  // namespace tranship
