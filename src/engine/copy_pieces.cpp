#include "engine/copy_pieces.hpp"

#include <bit>
#include <optional>

#include "engine/byte_blocks.hpp"
#include "engine/check_pieces.hpp"
#include "engine/checks.hpp"
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

}  // namespace

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

Status check_pieces(const Array& source, const Array& target, const PieceLists& pieces) {
  const auto ends = as_bytes(source, target);
  if (!ends) return ends.error();
  const auto seen = check_blocks(*ends, pieces);
  return seen ? Status{} : Status(seen.error());
}

Result<ListPlan> plan_pieces(CopyRunner& runner, const Array& source, const Array& target,
                             const PieceLists& pieces, const CopyOptions& options,
                             IndexedCopy& copy) {
  auto ends = as_bytes(source, target);
  if (!ends) return ends.error();
  const auto seen = check_blocks(*ends, pieces);
  if (!seen) return seen.error();
  auto query = byte_query(runner, *ends, seen->bytes, options);
  if (!query) return query.error();
  auto path = path_of_list(runner, *query);
  if (!path) return path.error();
  if (seen->bytes == 0) return ListPlan{std::move(path->plan), std::move(*ends), {}};
  if (goes_as_run_list(*path, options, pieces.lengths.size(), seen->length_bound)) {
    if (const auto runs = run_list_of(*ends, pieces, *seen)) {
      return plan_run_list(*path, std::move(*ends), *runs);
    }
  }
  lower_pieces(pieces, begin_of(ends->source), begin_of(ends->target), path->tile_bytes, copy);
  return plan_list(*path, std::move(*ends), options, copy);
}

}  // namespace tranship
