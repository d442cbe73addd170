#include "engine/recipe/byte_blocks.hpp"

#include <array>
#include <bit>
#include <memory>
#include <string>
#include <utility>

#include "data/block.hpp"
#include "engine/checks.hpp"

namespace tranship {
namespace {

/// Returns the bytes for which a list is planned: up to a sixteenth more than it has, so that lists
/// of nearly as many bytes share a plan, whose times differ by less than they are known.
std::int64_t planned_bytes(std::int64_t bytes) {
  constexpr std::int64_t exact_below = 4096;
  if (bytes < exact_below) return bytes;
  const int spare_bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(bytes))) - 5;
  const std::int64_t step = std::int64_t{1} << spare_bits;
  return (bytes + step - 1) / step * step;
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

/// Each thread remembers the last ones, since to make one costs as much as a check of a hundred
/// pieces.
Result<View> byte_view(std::int64_t offset, std::int64_t count) {
  struct Remembered {
    std::int64_t offset = 0;
    std::int64_t count = -1;
    std::shared_ptr<const Mapping> mapping;
  };
  thread_local std::array<Remembered, 4> last;
  thread_local std::size_t next = 0;
  for (const Remembered& one : last) {
    if (one.offset == offset && one.count == count) return View::whole(one.mapping);
  }
  auto mapping = Mapping::make_strided({{"byte", count}}, {{{"f0", "u1", 1}, offset, {1}}});
  if (!mapping) return mapping.error();
  last[next++ % last.size()] = {offset, count, *mapping};
  return View::whole(std::move(*mapping));
}

Result<CopyPair> as_bytes(const Array& source, const Array& target) {
  auto from = as_bytes(source, "source");
  if (!from) return from.error();
  auto to = as_bytes(target, "target");
  if (!to) return to.error();
  return CopyPair{std::move(*from), std::move(*to)};
}

Result<PlanQuery> byte_query(RecipeMaker& maker, const CopyPair& blocks, std::int64_t bytes,
                             const CopyOptions& options, RecipeUse use) {
  CopyPair ends = blocks;
  const std::int64_t planned = planned_bytes(bytes);
  for (Array* block : {&ends.source, &ends.target}) {
    auto view = byte_view(begin_of(*block), planned);
    if (!view) return view.error();
    block->view = std::move(*view);
  }
  auto query = maker.planner().query_of(ends.source, ends.target, options, use.in_streams);
  if (query) query->lanes_max = 1;
  return query;
}

}  // namespace tranship
