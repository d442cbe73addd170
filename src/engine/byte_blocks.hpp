// Arrays as blocks of bytes, for copies that count in bytes.
#pragma once

#include <cstdint>

#include "base/error.hpp"
#include "engine/copy_options.hpp"

namespace tranship {

/// Returns two arrays as the bytes of the blocks that they fill, in memory order.
/// @error invalid_argument for an array with gaps
Result<CopyPair> as_bytes(const Array& source, const Array& target);

/// Returns the first `count` bytes of a block.
Array first_of(Array block, std::int64_t count);

/// Returns the block as one of `count` bytes, whatever it has: to plan a copy of as many.
/// @error invalid_argument if there is no such block
Result<Array> with_bytes(Array block, std::int64_t count);

/// Returns the block's first byte, counted from its array's address.
inline std::int64_t begin_of(const Array& block) { return block.view.mapping->begin_bytes(); }

}  // namespace tranship
