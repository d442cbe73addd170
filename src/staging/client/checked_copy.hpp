// Copies within the memory that this process reaches, which take checksums on the way.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "engine/copy_options.hpp"

namespace tranship::staging {

/// A copy of an array of one field, and the CRC-32C of its elements in the order of a dense array.
struct CheckedCopy {
  /// Whose bytes are taken: the source's before they are copied, or the target's after that.
  enum class Side { source, target };

  CopyPair pair;
  Side side = Side::source;
  std::uint32_t crc = 0;  ///< the result
};

/// Returns whether copy_checked() can copy from or to an array: the caller's thread reaches it, and
/// no work of a stream has to end before.
bool can_be_checked(const Array& array);

/// Carries out copies on the caller's thread and up to `threads - 1` others, part by part: each
/// part is copied and its checksum is taken while it lies in a cache. Arrays of a pair have the
/// same extents, and no bytes in common.
/// cold: Whether all copies together do not fit the caches.
/// check: Called now and then on the caller's thread; the copies end early when it fails.
/// @error that of `check`; out_of_memory; why the process that owns an array is lost
Status copy_checked(std::span<CheckedCopy> copies, int threads, bool cold,
                    const std::function<Status()>& check);

}  // namespace tranship::staging
