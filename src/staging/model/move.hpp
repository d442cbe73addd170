// Bytes of objects on their way between a server's memory and its disk.
#pragma once

#include <cstdint>

#include "base/heap.hpp"

namespace tranship::staging {

/// Alignment, on disk and in memory, of ranges that may bypass the page cache.
constexpr std::int64_t disk_alignment = 4096;

/// An operation on a range of the disk. Moves are carried out in the order in which they were
/// handed out.
struct Move {
  enum class Kind {
    out = 1,  ///< Write the object's memory to the disk.
    in,       ///< Read it back.
    drop,     ///< Free the range of the disk; its end is not reported.
  };
  Kind kind = Kind::out;
  std::uint64_t object = 0;
  Range memory;  ///< As long as the object.
  Range disk;    ///< Its place on disk, in whole pages.
};

}  // namespace tranship::staging
