// Views that fill one block of memory.
#pragma once

#include <cstdint>
#include <optional>

#include "data/mapping.hpp"

namespace tranship {

/// Returns the offset, in bytes from the array's base, of the block of view.bytes() bytes that the
/// elements of the view fill, in any order of its dimensions and fields; nothing if they leave gaps
/// or overlap.
std::optional<std::int64_t> block_of(const View& view);

}  // namespace tranship
