// A contiguous run: the plainest piece of a copy.
#pragma once

#include <cstdint>

namespace tranship {

/// Contiguous bytes that are moved as they are.
struct Run {
  std::int64_t source_offset = 0;  ///< bytes from the source's base
  std::int64_t target_offset = 0;  ///< bytes from the target's base
  std::int64_t bytes = 0;

  bool operator==(const Run&) const = default;
};

}  // namespace tranship
