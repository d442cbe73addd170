// A lock of what others hold for moments.
#pragma once

#include <mutex>

namespace tranship {

/// Locks the mutex, and looks for a while before it sleeps: for what is held for some microseconds
/// at a time, since a sleep and its end take tens of them.
std::unique_lock<std::mutex> brief_lock(std::mutex& mutex);

}  // namespace tranship
