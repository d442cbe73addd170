// Conversions of numbers in host memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "data/loop_nest.hpp"
#include "data/number_type.hpp"

namespace tranship::host {

/// Converts `count` numbers that follow each other from `source` to `target`, which must not
/// overlap, on the calling thread. Any alignment is allowed. Allocates nothing; uses up to 50 KiB
/// of stack. cold: Whether the target is written with streaming stores, which the caller fences.
void convert_run(const Conversion& conversion, const std::byte* source, std::byte* target,
                 std::int64_t count, bool cold);

/// Does the same for a nest that converts. Where runs are short, boxes of the nest are gathered to
/// runs, converted there and spread again, as plain nests.
void convert_nest(const LoopNest& nest, const std::byte* source, std::byte* target, bool cold);

}  // namespace tranship::host
