// The recipes of each kind of request. `CopyRequest::options` are those of all functions; their
// errors are those of RecipeMaker::make().
#pragma once

#include <span>

#include "engine/recipe/recipe_maker.hpp"

namespace tranship {

/// Copies whole arrays: in one step where one hop of one GPU carries the largest pair and reaches
/// all the others, else a step for each pair.
Result<Recipe> pairs_recipe(RecipeMaker& maker, std::span<const CopyPair> pairs,
                            const CopyOptions& options, RecipeUse use);

/// Copies pages: as one indexed nest, or, if pages are longer than a tile, run by run.
Result<Recipe> pages_recipe(RecipeMaker& maker, const CopyPair& ends, const PageLists& pages,
                            const CopyOptions& options, RecipeUse use);

/// Copies pieces, as one indexed nest.
Result<Recipe> pieces_recipe(RecipeMaker& maker, const CopyPair& ends, const PieceLists& pieces,
                             const CopyOptions& options, RecipeUse use);

/// Copies blocks of one GPU's memory by one launch. Returns no steps if no single launch can carry
/// them: the caller then copies them as pairs of arrays.
Result<Recipe> blocks_recipe(RecipeMaker& maker, const CopyPair& ends, const Blocks& blocks,
                             const CopyOptions& options);

/// Copies the elements of types: each group of pairs between the same two memories is one step.
Result<Recipe> types_recipe(RecipeMaker& maker, std::span<const CopyPair> pairs,
                            std::span<const TypePair> types, const CopyOptions& options,
                            RecipeUse use);

/// Checks that lists of pieces fit two arrays. @error as Engine::copy() of pieces
Status check_pieces(const CopyPair& ends, const PieceLists& pieces);

/// Checks that types fit two arrays. @error as Engine::copy() of types
Status check_types(const CopyPair& ends, const TypePair& types);

}  // namespace tranship
