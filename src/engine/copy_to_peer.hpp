// Small copies to and from arrays of other processes, on the caller's thread.
#pragma once

#include <optional>

#include "engine/array.hpp"
#include "plan/plan.hpp"

namespace tranship {

/// Carries a small one-hop copy at once: without the peer's help or, for a process on another
/// machine and if `waits`, by a message whose answer comes in a moment. Returns nothing if no such
/// way is open here.
std::optional<Status> copy_to_peer(const Plan& plan, const Array& source, const Array& target,
                                   bool waits);

}  // namespace tranship
