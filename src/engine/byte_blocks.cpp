#include "engine/byte_blocks.hpp"

#include <string>
#include <utility>

#include "data/block.hpp"
#include "engine/checks.hpp"

namespace tranship {
namespace {

/// Returns the view of `count` bytes from `offset` on.
Result<View> byte_view(std::int64_t offset, std::int64_t count) {
  auto mapping = Mapping::make_strided({{"byte", count}}, {{{"f0", "u1", 1}, offset, {1}}});
  if (!mapping) return mapping.error();
  return View::whole(std::move(*mapping));
}

Result<Array> as_bytes(const Array& array, const char* side) {
  const auto offset = block_of(array.view);
  if (!offset) {
    return invalid(std::string("the elements of the ") + side + " " + box_text(array) +
                       " do not fill one block of memory, in which offsets count bytes",
                   "give a contiguous array");
  }
  auto view = byte_view(*offset, array.view.bytes());
  if (!view) return view.error();
  Array block = array;
  block.view = std::move(*view);
  block.named = false;
  return block;
}

}  // namespace

Result<CopyPair> as_bytes(const Array& source, const Array& target) {
  auto from = as_bytes(source, "source");
  if (!from) return from.error();
  auto to = as_bytes(target, "target");
  if (!to) return to.error();
  return CopyPair{std::move(*from), std::move(*to)};
}

Result<PlanQuery> byte_query(CopyRunner& runner, const CopyPair& blocks, std::int64_t bytes,
                             const CopyOptions& options) {
  CopyPair ends = blocks;
  for (Array* block : {&ends.source, &ends.target}) {
    auto view = byte_view(begin_of(*block), bytes);
    if (!view) return view.error();
    block->view = std::move(*view);
  }
  auto query = runner.planner().query_of(ends.source, ends.target, options);
  if (query) query->lanes_max = 1;
  return query;
}

}  // namespace tranship
