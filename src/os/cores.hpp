// Whether threads may keep a core while they wait.
#pragma once

namespace tranship {

/// Whether the machine has so many cores that a thread may keep one while it waits for
/// microseconds. Where it has not, whoever is waited for may need that core.
bool cores_to_spare();

}  // namespace tranship
