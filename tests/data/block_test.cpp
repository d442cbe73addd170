#include "data/block.hpp"

#include <set>

#include "base/random.hpp"
#include "support/test.hpp"

using namespace tranship;

namespace {

std::shared_ptr<const Mapping> laid(const char* layout, IndexSpace space, FieldSpace fields) {
  return Mapping::make(std::move(space), std::move(fields), *Layout::parse(layout)).value();
}

/// Returns where the block begins by looking at each byte; nothing if there is no block.
std::optional<std::int64_t> found_block(const View& view) {
  std::set<std::int64_t> bytes;
  const Mapping& mapping = *view.mapping;
  for (std::int64_t point = 0; point < view.points(); ++point) {
    for (const Placement& field : mapping.fields()) {
      std::int64_t rest = point;
      std::int64_t offset = field.offset;
      for (std::size_t k = 0; k < static_cast<std::size_t>(mapping.rank()); ++k) {
        offset += field.dimension[k].offset(view.lower[k] + rest % view.extents[k]);
        rest /= view.extents[k];
      }
      for (std::int64_t j = 0; j < field.field.bytes; ++j) bytes.insert(offset + j);
    }
  }
  const auto count = static_cast<std::int64_t>(bytes.size());
  const bool dense = count == view.bytes() && *bytes.rbegin() - *bytes.begin() == count - 1;
  return dense ? std::optional(*bytes.begin()) : std::nullopt;
}

}  // namespace

TEST(blocks_of_strided_arrays_are_those_that_a_walk_finds) {
  Random random(5);
  int blocks = 0;
  for (int round = 0; round < 20'000; ++round) {
    IndexSpace space;
    std::vector<std::int64_t> strides;
    std::int64_t run = random.chance(0.8) ? 2 : random.between(1, 3);
    for (int k = 0; k < 3; ++k) {
      space.push_back({std::string(1, static_cast<char>('x' + k)), random.between(1, 4)});
      strides.push_back(random.chance(0.9) ? run : random.between(-9, 9));
      run *= space.back().extent;
    }
    if (random.chance(0.5)) {
      std::swap(space[0].extent, space[2].extent);
      std::swap(strides[0], strides[2]);
    }
    const auto mapping = Mapping::make_strided(space, {{{"a", "i2", 2}, 40, strides}}).value();
    View view = View::whole(mapping);
    if (random.chance(0.4)) {
      const auto k = static_cast<std::size_t>(random.below(3));
      view.lower[k] = random.below(view.extents[k]);
      view.extents[k] = random.between(1, view.extents[k] - view.lower[k]);
    }
    const auto wanted = found_block(view);
    const auto block = block_of(view);
    // A reversed dimension leaves no gap, but its bytes do not begin at the first element.
    bool reversed = false;
    for (std::size_t k = 0; k < 3; ++k) reversed |= view.extents[k] > 1 && strides[k] <= 0;
    EXPECT(block == (reversed ? std::nullopt : wanted));
    blocks += block ? 1 : 0;
  }
  EXPECT(blocks > 4000);
}

TEST(blocks_of_layouts) {
  const IndexSpace space{{"x", 8}, {"y", 6}};
  const FieldSpace fields{{"a", "f4", 4}, {"b", "f8", 8}};
  for (const char* layout : {"F, x, y", "F, y, x", "F, x:4, y, x", "F, x:4, y:2, x, y"}) {
    EXPECT(block_of(View::whole(laid(layout, space, fields))) == 0);
  }
  EXPECT(!block_of(View::whole(laid("F, x:3, y, x", space, fields))));  // 8 is no multiple of 3
  View part = View::whole(laid("F, x, y", space, fields));
  part.lower[1] = 2;
  part.extents[1] = 3;
  EXPECT(block_of(part) == 2 * 8 * 12);
  part.lower[0] = 1;
  part.extents[0] = 7;
  EXPECT(!block_of(part));
}
