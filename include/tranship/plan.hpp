// Plans: the way that a copy takes, and what it should cost.
#pragma once

#include <memory>
#include <string>

#include "engine.h"
#include "error.hpp"

namespace tranship {

/// The plan of a copy. Does not change; any thread may read it.
class Plan {
 public:
  /// Takes ownership of a handle of the C API.
  explicit Plan(tranship_plan* handle) noexcept : handle_(handle) {}

  /// Returns hops, layouts, tiles, predicted time, what binds it, and what it beat, as text.
  std::string explain() const { return tranship_plan_text(handle_.get()); }
  /// Returns the same as JSON, with the keys of `tranship plan --json`.
  std::string to_json() const { return tranship_plan_json(handle_.get()); }
  /// Returns the predicted time.
  Seconds predicted() const noexcept { return Seconds(tranship_plan_seconds(handle_.get())); }
  tranship_plan* handle() const noexcept { return handle_.get(); }

 private:
  std::unique_ptr<tranship_plan, detail::Free<tranship_plan_free>> handle_;
};

}  // namespace tranship
