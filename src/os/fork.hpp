// What a forked child must not share with its parent.
#pragma once

#include <cstdint>

namespace tranship {

/// Returns the number of forks between the process that called this first and this one. If it has
/// changed since an object was made, the object's threads and connections belong to the parent.
/// Threads: all. Cost: one load.
std::uint64_t fork_generation();

/// Closes `descriptor` in every child that this process forks from now on, until
/// keep_in_children(). A child's copy of a socket would keep its dead parent looking alive.
/// Descriptors of 65,536 and more are left alone. Threads: all.
void close_in_children(int descriptor);

/// Ends close_in_children(); call it before the descriptor is closed.
void keep_in_children(int descriptor);

}  // namespace tranship
