// How many cores the machine has, for threads that wait.
#pragma once

namespace tranship {

/// Returns whether the machine has so many cores (8) that a thread may keep one while it waits for
/// microseconds. With fewer, the thread that it waits for may need the core.
bool cores_to_spare();

}  // namespace tranship
