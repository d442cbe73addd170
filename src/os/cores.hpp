// How many cores there are to wait with.
#pragma once

namespace tranship {

/// Whether the machine has so many cores that a thread may keep one while it waits for
/// microseconds. Where it has not, whoever is waited for may need that core.
bool cores_to_spare();

}  // namespace tranship
