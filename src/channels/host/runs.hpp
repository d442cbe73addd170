// Copies of lists of contiguous runs in host memory.
#pragma once

#include <cstddef>
#include <span>

#include "data/run.hpp"

namespace tranship {

/// Copies runs from `source` to `target`, which must not overlap, on the calling thread. Allocates
/// nothing. cold: As for copy_nests().
void copy_runs(std::span<const Run> runs, const std::byte* source, std::byte* target, bool cold);

}  // namespace tranship
