// Copies in host memory: any loop nests, on the calling thread.
#pragma once

#include <cstddef>
#include <span>

#include "data/indexed_nest.hpp"
#include "data/loop_nest.hpp"

namespace tranship {

/// Copies `nests` from `source` to `target`, which must not overlap, on the calling thread. Any
/// rank, element size, alignment and strides are allowed; target points must be distinct. Allocates
/// nothing; uses up to 300 KiB of stack. Never writes bytes outside the nests.
/// cold: Whether the whole transfer, of which this may be a part, does not fit the caches. Then the
/// target is written with streaming stores, which are visible to other threads on return.
void copy_nests(std::span<const LoopNest> nests, const std::byte* source, std::byte* target,
                bool cold);

/// Does as copy_nests() above for indexed nests, entry by entry.
void copy_indexed(std::span<const IndexedNest> lists, const std::byte* source, std::byte* target,
                  bool cold);

}  // namespace tranship
