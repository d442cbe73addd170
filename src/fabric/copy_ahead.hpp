// Packing from memory that is not in the caches.
#pragma once

#include <cstddef>
#include <span>

#include "data/loop_nest.hpp"
#include "fabric/slot_server.hpp"

namespace tranship {

/// Carries out `nests` with `copy`, in groups of rows, while the rows of the next group are on
/// their way from memory: the hardware's prefetch does not follow short rows that are far apart,
/// and a core then waits for each. Does what `copy` alone does, about twice as fast for such rows.
void copy_ahead(const CopyNests& copy, std::span<const LoopNest> nests, const std::byte* source,
                std::byte* target);

/// Asks for the first rows of `nest`, the piece that comes next.
void prefetch_first(const LoopNest& nest, const std::byte* source);

}  // namespace tranship
