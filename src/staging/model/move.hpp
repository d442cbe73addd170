// Bytes of objects on their way between a server's memory and its disk.
#pragma once

#include <cstdint>

#include "base/heap.hpp"

namespace tranship::staging {

/// What begins at whole multiples of it, on disk and in memory, may go around the page cache.
constexpr std::int64_t disk_alignment = 4096;

/// What is to be done with a range of the disk. Moves are carried out in the order in which they
/// were asked for.
struct Move {
  enum class Kind {
    out = 1,  ///< write the object's memory to the disk
    in,       ///< read it back
    drop,     ///< nobody needs these bytes of the disk any more; its end is not reported
  };
  Kind kind = Kind::out;
  std::uint64_t object = 0;
  Range memory;  ///< as long as the object
  Range disk;    ///< where it begins there, in whole pages
};

}  // namespace tranship::staging
