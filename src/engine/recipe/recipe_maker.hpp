// Makes recipes: checks a request, plans it, and chooses the form and the carrier of each step.
#pragma once

#include <memory>

#include "engine/engine_channels.hpp"
#include "engine/link_usage.hpp"
#include "engine/recipe/copy_planner.hpp"
#include "engine/recipe/copy_request.hpp"
#include "engine/recipe/list_path.hpp"
#include "engine/recipe/recipe.hpp"

namespace tranship {

/// For which starts a recipe is made.
struct RecipeUse {
  /// It is started more than once: it owns its lists.
  bool kept = false;
  /// Starts may be put into streams, so that one hop is preferred.
  bool in_streams = false;
  /// It starts at once, so that the load of the moment counts.
  bool starts_now = false;
};

/// Refers to parts of an engine, which outlive it. The arrays of its requests lie in memories that
/// are known (is_resolved()). Threads: all.
class RecipeMaker {
 public:
  /// links: Null where the uses of links are not known.
  RecipeMaker(CopyPlanner& planner, const EngineChannels& channels, LinkUsage* links)
      : planner_(planner), channels_(channels), links_(links) {}

  /// Checks the request, and decides all that does not depend on addresses and on time.
  /// @error as Engine::copy()
  Result<Recipe> make(const CopyRequest& request, RecipeUse use);

  /// Plans ahead what the caller's thread and GPUs do, for any number of starts between arrays that
  /// are aligned as `pairs`. waits: Whether it returns only when the tables lie on the GPUs.
  /// @error what the driver refused
  Status make_ready(Recipe& recipe, std::span<const CopyPair> pairs, bool waits) const;

  /// Returns the plan of a copy that would start now, behind what goes before it.
  /// @error as Engine::copy()
  Result<std::shared_ptr<const Plan>> plan(const CopyPair& pair, const CopyOptions& options);

  CopyPlanner& planner() { return planner_; }
  const EngineChannels& channels() const { return channels_; }
  const Profile& profile() const { return channels_.profile(); }

  /// Returns the step of one pair of whole arrays.
  /// @error as make()
  Result<RecipeStep> box_step(const CopyPair& pair, const CopyOptions& options, RecipeUse use);
  /// Returns the step of lists along their path, into whose tiles it cuts them.
  RecipeStep list_step(const ListPath& path, const CopyPair& ends, const CopyOptions& options,
                       std::shared_ptr<IndexedCopy> lists) const;
  /// Returns the step of runs, which refer to lists that outlive its one start.
  RecipeStep runs_step(const ListPath& path, const CopyPair& ends, const CopyOptions& options,
                       const RunList& runs) const;

 private:
  RecipeStep step_of(std::shared_ptr<const Plan> plan, const CopyPair& ends,
                     const CopyOptions& options, bool lists) const;
  Carrier carrier_for(const Plan& plan, const CopyPair& ends, bool lists) const;
  bool is_cold(const Plan& plan, const CopyOptions& options) const;
  Status make_ready(RecipeStep& step, const CopyPair& ends, bool waits) const;

  CopyPlanner& planner_;
  const EngineChannels& channels_;
  LinkUsage* links_;
};

}  // namespace tranship
