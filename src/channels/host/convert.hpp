// Conversions of numbers in host memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "data/loop_nest.hpp"
#include "data/number_type.hpp"

namespace tranship::host {

/// Returns whether any number's bits differ between the sides: not between int32 and uint32.
bool changes_bits(const Conversion& conversion);

/// Converts `count` numbers that follow each other from `source` to `target`, which must not
/// overlap, on the calling thread. Any alignment is allowed. Allocates nothing; uses up to 50 KiB
/// of stack. cold: Whether the target is written with streaming stores, which the caller fences.
void convert_run(const Conversion& conversion, const std::byte* source, std::byte* target,
                 std::int64_t count, bool cold);

/// Does the same for a nest that converts. Where runs are short, boxes of the nest are gathered in
/// the second cache, in the target's order, and converted from there to the target, or, if its runs
/// are short as well, within the cache and spread. Uses up to 400 KiB of stack.
void convert_nest(const LoopNest& nest, const std::byte* source, std::byte* target, bool cold);

}  // namespace tranship::host
