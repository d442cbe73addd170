// Locks a mutex that is held for microseconds.
#pragma once

#include <mutex>

namespace tranship {

/// Locks the mutex, and tries for a while before it sleeps. For mutexes that are held for some
/// microseconds at a time, since a sleep and its end take tens of them.
std::unique_lock<std::mutex> brief_lock(std::mutex& mutex);

}  // namespace tranship
