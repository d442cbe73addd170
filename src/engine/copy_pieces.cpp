#include "engine/copy_pieces.hpp"

#include "engine/byte_blocks.hpp"
#include "engine/check_pieces.hpp"
#include "engine/checks.hpp"

namespace tranship {
namespace {

Status check_blocks(const CopyPair& ends, const PieceLists& pieces) {
  const auto& [source, target] = ends;
  PieceBlocks blocks{source.view.bytes(), target.view.bytes(), distance_between(source, target)};
  if (blocks.distance) *blocks.distance += begin_of(target) - begin_of(source);
  return check_pieces(pieces, blocks);
}

}  // namespace

Status check_pieces(const Array& source, const Array& target, const PieceLists& pieces) {
  const auto ends = as_bytes(source, target);
  return ends ? check_blocks(*ends, pieces) : Status(ends.error());
}

Result<ListPlan> plan_pieces(CopyRunner& runner, const Array& source, const Array& target,
                             const PieceLists& pieces, const CopyOptions& options,
                             IndexedCopy& copy) {
  auto ends = as_bytes(source, target);
  if (!ends) return ends.error();
  if (Status s = check_blocks(*ends, pieces); !s) return s.error();
  auto query = byte_query(runner, *ends, pieces.bytes(), options);
  if (!query) return query.error();
  auto path = path_of_list(runner, *query);
  if (!path) return path.error();
  if (pieces.bytes() == 0) return ListPlan{std::move(path->plan), std::move(*ends), {}};
  lower_pieces(pieces, begin_of(ends->source), begin_of(ends->target), path->tile_bytes, copy);
  return plan_list(*path, std::move(*ends), options, copy);
}

}  // namespace tranship
