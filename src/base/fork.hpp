// Notices that this process is a fork of the one that started something.
#pragma once

#include <cstdint>

namespace tranship {

/// How often this process has been forked from one that used Tranship. Threads, locks and sockets
/// of an earlier generation live in the parent: a child must open its own.
std::uint64_t fork_generation();

}  // namespace tranship
