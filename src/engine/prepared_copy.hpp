// Copies that are checked and planned once, and started again and again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "engine/carriers/carriers.hpp"
#include "engine/recipe/copy_request.hpp"
#include "engine/recipe/recipe.hpp"

namespace tranship {

/// A recipe that the user holds, with the arrays that it was made for. A value, whose copies share
/// all of that; it keeps its arrays alive, and so does each start until it has ended. The engine
/// must outlive it. Threads: all; starts may overlap.
class PreparedCopy {
 public:
  /// request: What the recipe was made of; its arrays' memories are known (is_resolved()).
  PreparedCopy(Recipe recipe, const CopyRequest& request);

  /// @error as Engine::start()
  Result<Event> start(const Carriers& carriers, const StartOptions& options) const;
  Result<Event> start(const Carriers& carriers, const CopyPair& ends,
                      const StartOptions& options) const;
  /// As Engine::start_now().
  std::optional<Event> start_now(const Carriers& carriers, const StartOptions& options) const;

  /// Returns the arrays that it was prepared for; the first of several pairs. Null: there are none.
  const CopyPair* ends() const;
  /// Returns the plan of the first step; null: nothing is copied.
  std::shared_ptr<const Plan> plan() const;
  std::int64_t bytes() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace tranship
