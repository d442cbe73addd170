// What a forked child must not share with its parent.
#pragma once

#include <cstddef>
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

/// Keeps the addresses of memory that children do not get (MADV_DONTFORK) free of anything else in
/// them, from now on: a child that uses such an address ends with a fault, and reads nothing else.
/// `address` is that of a page. Returns false if too many memories are guarded. Threads: all.
bool guard_in_children(void* address, std::size_t bytes);

/// Ends guard_in_children(); call it before the memory is unmapped.
void unguard_in_children(void* address);

}  // namespace tranship
