#include "engine/copy_pieces.hpp"

#include <algorithm>
#include <string>

#include "data/block.hpp"
#include "engine/check_pieces.hpp"
#include "engine/checks.hpp"

namespace tranship {
namespace {

/// Returns the array as the bytes of the block that it fills.
Result<Array> as_bytes(const Array& array, const char* side) {
  const auto offset = block_of(array.view);
  if (!offset) {
    return invalid(std::string("the elements of the ") + side + " " + box_text(array) +
                       " do not fill one block of memory, of which pieces are byte ranges",
                   "give a contiguous array");
  }
  const std::int64_t bytes = array.view.bytes();
  auto mapping = Mapping::make_strided({{"byte", bytes}}, {{{"f0", "u1", 1}, *offset, {1}}});
  if (!mapping) return mapping.error();
  Array block = array;
  block.view = View::whole(std::move(*mapping));
  block.named = false;
  return block;
}

/// The first `count` bytes of a block.
Array first_of(Array block, std::int64_t count) {
  block.view.extents[0] = count;
  return block;
}

Result<CopyPair> as_bytes(const Array& source, const Array& target) {
  auto from = as_bytes(source, "source");
  if (!from) return from.error();
  auto to = as_bytes(target, "target");
  if (!to) return to.error();
  return CopyPair{std::move(*from), std::move(*to)};
}

std::int64_t begin_of(const Array& block) { return block.view.mapping->begin_bytes(); }

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
  // Planned as so many neighbouring bytes.
  const std::int64_t planned =
      std::min({pieces.bytes(), ends->source.view.bytes(), ends->target.view.bytes()});
  auto query = runner.planner().query_of(first_of(ends->source, planned),
                                         first_of(ends->target, planned), options);
  if (!query) return query.error();
  query->lanes_max = 1;
  auto path = path_of_list(runner, *query);
  if (!path) return path.error();
  if (planned == 0) return ListPlan{std::move(path->plan), std::move(*ends), {}};
  lower_pieces(pieces, begin_of(ends->source), begin_of(ends->target), path->tile_bytes, copy);
  return plan_list(*path, std::move(*ends), options, copy);
}

}  // namespace tranship
