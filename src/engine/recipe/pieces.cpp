#include "data/check_pieces.hpp"

#include <bit>
#include <optional>
#include <utility>

#include "engine/recipe/byte_blocks.hpp"
#include "engine/recipe/lent_lists.hpp"
#include "engine/recipe/recipes.hpp"
#include "engine/same_bytes.hpp"

namespace tranship {
namespace {

Result<PieceSurvey> check_blocks(const CopyPair& ends, const PieceLists& pieces) {
  const auto& [source, target] = ends;
  PieceBlocks blocks{source.view.bytes(), target.view.bytes(), distance_between(source, target)};
  if (blocks.distance) *blocks.distance += begin_of(target) - begin_of(source);
  return check_pieces(pieces, blocks);
}

int shift_of(std::int64_t grain) { return std::countr_zero(static_cast<std::uint64_t>(grain)); }

/// Returns pieces, which were checked, as runs. Returns nothing if neighbours can be joined to a
/// shorter list, or if offsets are too large for runs.
std::optional<RunList> run_list_of(const CopyPair& ends, const PieceLists& pieces,
                                   const PieceSurvey& seen) {
  constexpr std::int64_t joined_below = 4096;  // a longer piece gains nothing by it
  if (seen.bytes / std::ssize(pieces.lengths) < joined_below && mostly_follow(pieces)) return {};
  const auto side = [](std::span<const std::int64_t> offsets, std::int64_t grain,
                       const Array& array) {
    return RunSide{offsets, shift_of(grain), grain, begin_of(array)};
  };
  if (ends.source.view.bytes() / seen.source_grain > run_place_most ||
      ends.target.view.bytes() / seen.target_grain > run_place_most) {
    return {};
  }
  RunList list{side(pieces.source_offsets, seen.source_grain, ends.source),
               side(pieces.target_offsets, seen.target_grain, ends.target), seen.bytes};
  if (!seen.equal) {
    list.lengths = pieces.lengths;
    list.length_shift = shift_of(seen.length_grain);
  }
  return list;
}

}  // namespace

Status check_pieces(const CopyPair& ends, const PieceLists& pieces) {
  const auto blocks = as_bytes(ends.source, ends.target);
  if (!blocks) return blocks.error();
  const auto seen = check_blocks(*blocks, pieces);
  return seen ? Status{} : Status(seen.error());
}

Result<Recipe> pieces_recipe(RecipeMaker& maker, const CopyPair& ends, const PieceLists& pieces,
                             const CopyOptions& options, RecipeUse use) {
  const auto blocks = as_bytes(ends.source, ends.target);
  if (!blocks) return blocks.error();
  const auto seen = check_blocks(*blocks, pieces);
  if (!seen) return seen.error();
  auto query = byte_query(maker, *blocks, seen->bytes, options, use);
  if (!query) return query.error();
  auto path = path_of_list(maker, *query);
  if (!path) return path.error();
  if (seen->bytes == 0) {
    return Recipe{{maker.list_step(*path, *blocks, options, lent_lists())}};
  }
  if (goes_as_run_list(*path, use, pieces.lengths.size(), seen->length_bound)) {
    if (const auto runs = run_list_of(*blocks, pieces, *seen)) {
      return Recipe{{maker.runs_step(*path, *blocks, options, *runs)}};
    }
  }
  auto lists = lent_lists();
  lower_pieces(pieces, begin_of(blocks->source), begin_of(blocks->target), path->tile_bytes,
               *lists);
  return Recipe{{maker.list_step(*path, *blocks, options, std::move(lists))}};
}

Result<Recipe> blocks_recipe(RecipeMaker& maker, const CopyPair& ends, const Blocks& blocks,
                             const CopyOptions& options) {
  const PieceLists& pieces = blocks.pieces;
  const RecipeUse once{false, options.start.stream.has_value(), true};
  const PieceSurvey seen = survey(pieces, ends.source.view.bytes(), ends.target.view.bytes());
  auto query = byte_query(maker, ends, seen.bytes, options, once);
  if (!query) return query.error();
  const auto path = path_of_list(maker, *query);
  if (!path) return path.error();
  // No other form will do: it would join neighbours, which may be allocations of their own.
  if (!goes_as_run_list(*path, once, pieces.lengths.size(), seen.length_bound)) return Recipe{};
  const auto runs = run_list_of(ends, pieces, seen);
  return runs ? Recipe{{maker.runs_step(*path, ends, options, *runs)}} : Recipe{};
}

}  // namespace tranship
