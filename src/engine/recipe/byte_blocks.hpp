// Arrays as blocks of bytes, for copies that count in bytes.
#pragma once

#include <cstdint>

#include "base/error.hpp"
#include "engine/copy_options.hpp"
#include "engine/recipe/recipe_maker.hpp"

namespace tranship {

/// Returns the view of `count` bytes from `offset` on.
/// @error as Mapping::make_strided()
Result<View> byte_view(std::int64_t offset, std::int64_t count);

/// Returns two arrays as the bytes of the blocks that they fill, in memory order.
/// @error invalid_argument for an array with gaps
Result<CopyPair> as_bytes(const Array& source, const Array& target);

/// Returns the question for the path of a list of `bytes` bytes between two blocks: it counts as so
/// many neighbouring bytes, however few the blocks have.
/// @error as CopyPlanner::query_of()
Result<PlanQuery> byte_query(RecipeMaker& maker, const CopyPair& blocks, std::int64_t bytes,
                             const CopyOptions& options, RecipeUse use);

/// Returns the block's first byte, counted from its array's address.
inline std::int64_t begin_of(const Array& block) { return block.view.mapping->begin_bytes(); }

}  // namespace tranship
