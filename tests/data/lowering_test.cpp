#include "data/lowering.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "support/test.hpp"

using namespace tranship;

namespace {

Layout random_layout(Random& random, const IndexSpace& space) {
  std::vector<Term> terms{Term{}};
  for (const Dimension& dimension : space) {
    const auto blocks = random.below(3);
    for (int k = 0; k < blocks; ++k) terms.push_back({dimension.name, random.between(1, 5)});
    terms.push_back({dimension.name, 0});
  }
  for (std::size_t k = terms.size(); k > 1; --k) {
    std::swap(terms[k - 1],
              terms[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(k)))]);
  }
  return Layout(terms);
}

std::int64_t offset_of(const Mapping& mapping, std::size_t field, const Point& point) {
  const Placement& placement = mapping.fields()[field];
  std::int64_t offset = placement.offset;
  for (std::size_t k = 0; k < static_cast<std::size_t>(mapping.rank()); ++k) {
    offset += placement.dimension[k].offset(point[k]);
  }
  return offset;
}

template <typename Body>
void for_each_point(const Point& extents, int rank, Body body) {
  Point point{};
  for (int k = 0; k < rank; ++k) {
    if (extents[static_cast<std::size_t>(k)] == 0) return;
  }
  while (true) {
    body(point);
    std::size_t k = 0;
    for (; k < static_cast<std::size_t>(rank); ++k) {
      if (++point[k] < extents[k]) break;
      point[k] = 0;
    }
    if (k == static_cast<std::size_t>(rank)) return;
  }
}

void run(const LoopNest& nest, const std::byte* source, std::byte* target, int loop = -1,
         std::int64_t from = 0, std::int64_t to = 0) {
  if (loop < 0) {
    return run(nest, source, target, nest.rank, nest.source_offset, nest.target_offset);
  }
  if (loop == 0) {
    std::memcpy(target + to, source + from, static_cast<std::size_t>(nest.element_bytes));
    return;
  }
  const Loop& outer = nest.loops[static_cast<std::size_t>(loop - 1)];
  for (std::int64_t i = 0; i < outer.extent; ++i) {
    run(nest, source, target, loop - 1, from + i * outer.source_stride,
        to + i * outer.target_stride);
  }
}

struct Pair {
  std::shared_ptr<const Mapping> source;
  std::shared_ptr<const Mapping> target;
};

Pair random_pair(Random& random) {
  const auto rank = random.between(1, 4);
  IndexSpace space;
  for (int k = 0; k < rank; ++k) {
    space.push_back({std::string(1, static_cast<char>('p' + k)), random.between(1, 13)});
  }
  FieldSpace fields;
  const std::int64_t sizes[] = {1, 2, 4, 8, 16};
  const auto count = random.between(1, 4);
  for (int f = 0; f < count; ++f) {
    fields.push_back({"f" + std::to_string(f), "u1", sizes[random.below(5)]});
  }
  return {Mapping::make(space, fields, random_layout(random, space)).value(),
          Mapping::make(space, fields, random_layout(random, space)).value()};
}

}  // namespace

TEST(layouts_are_injective_and_stay_inside) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const auto mapping = random_pair(random).source;
    std::set<std::int64_t> seen;
    for_each_point(View::whole(mapping).extents, mapping->rank(), [&](const Point& point) {
      for (std::size_t f = 0; f < mapping->fields().size(); ++f) {
        const std::int64_t offset = offset_of(*mapping, f, point);
        for (std::int64_t b = 0; b < mapping->fields()[f].field.bytes; ++b) {
          EXPECT(seen.insert(offset + b).second);
          EXPECT(offset + b >= 0 && offset + b < mapping->end_bytes());
        }
      }
    });
  }
}

TEST(lowering_equals_indexing) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Random random(seed);
    const auto [source, target] = random_pair(random);
    Corner from{source.get(), {}};
    Corner to{target.get(), {}};
    Point extents{};
    for (std::size_t k = 0; k < static_cast<std::size_t>(source->rank()); ++k) {
      extents[k] = random.between(0, source->space()[k].extent);
      from.lower[k] = random.between(0, source->space()[k].extent - extents[k]);
      to.lower[k] = random.between(0, source->space()[k].extent - extents[k]);
    }
    std::vector<std::byte> input(static_cast<std::size_t>(source->end_bytes()));
    for (auto& byte : input) byte = static_cast<std::byte>(random.next());
    std::vector<std::byte> expected(static_cast<std::size_t>(target->end_bytes()), std::byte{0x5a});
    auto output = expected;
    for_each_point(extents, source->rank(), [&](Point point) {
      for (std::size_t f = 0; f < source->fields().size(); ++f) {
        Point at = point;
        Point in = point;
        for (std::size_t k = 0; k < at.size(); ++k) {
          at[k] += to.lower[k];
          in[k] += from.lower[k];
        }
        std::memcpy(&expected[static_cast<std::size_t>(offset_of(*target, f, at))],
                    &input[static_cast<std::size_t>(offset_of(*source, f, in))],
                    static_cast<std::size_t>(source->fields()[f].field.bytes));
      }
    });
    std::vector<LoopNest> nests;
    lower(from, to, extents, {}, nests);
    std::int64_t moved = 0;
    for (const LoopNest& nest : nests) {
      run(nest, input.data(), output.data());
      moved += nest.bytes();
    }
    std::int64_t points = 1;
    for (int k = 0; k < source->rank(); ++k) points *= extents[static_cast<std::size_t>(k)];
    EXPECT_EQ(moved, points * source->point_bytes());
    EXPECT(output == expected);
    if (output != expected) {
      test::record_failure(__FILE__, __LINE__, "seed " + std::to_string(seed));
      break;
    }
  }
}

TEST(whole_copies_of_one_layout_become_one_run) {
  for (const char* text : {"F, x, y", "x, F, y", "x, y, F", "x:4, F, x, y", "y, x:2, F, x"}) {
    const IndexSpace space{{"x", 8}, {"y", 6}};
    const FieldSpace fields{{"a", "f4", 4}, {"b", "f8", 8}, {"c", "i2", 2}};
    const auto mapping = Mapping::make(space, fields, Layout::parse(text).value()).value();
    std::vector<LoopNest> nests;
    lower({mapping.get(), {}}, {mapping.get(), {}}, View::whole(mapping).extents, {}, nests);
    EXPECT_EQ(nests.size(), 1u);
    EXPECT_EQ(nests[0].rank, 0);
    EXPECT_EQ(nests[0].element_bytes, 8 * 6 * 14);
  }
}

TEST(records_to_arrays_become_one_transpose) {
  const IndexSpace space{{"x", 1000}};
  FieldSpace fields;
  for (int f = 0; f < 8; ++f) fields.push_back({"f" + std::to_string(f), "f4", 4});
  const auto records = Mapping::make(space, fields, Layout::parse("F, x").value()).value();
  const auto arrays = Mapping::make(space, fields, Layout::parse("x, F").value()).value();
  std::vector<LoopNest> nests;
  lower({records.get(), {}}, {arrays.get(), {}}, View::whole(records).extents, {}, nests);
  EXPECT_EQ(nests.size(), 1u);
  EXPECT_EQ(nests[0].rank, 2);
  EXPECT_EQ(nests[0].element_bytes, 4);
  EXPECT(nests[0].loops[0] == (Loop{1000, 32, 4}));
  EXPECT(nests[0].loops[1] == (Loop{8, 4, 4000}));
}

TEST(layout_text_is_checked) {
  for (const char* text : {"", "x,,y", "F:4, x", "x:0, x", "x:-1, x", "4x", "F, F, x"}) {
    EXPECT(!Layout::parse(text).ok());
  }
  const IndexSpace space{{"x", 4}, {"y", 4}};
  for (const char* text : {"F, x", "F, x, y, z", "x, x, y", "x:2, y"}) {
    EXPECT(!Layout::parse(text).value().check(space).ok());
  }
  EXPECT_EQ(Layout::parse("x:4,F, x ,y").value().to_string(), std::string("x:4, F, x, y"));
  EXPECT_EQ(Layout::parse("x, y").value().to_string(), std::string("F, x, y"));
}

TEST(overlap_is_exact_on_small_boxes) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    const auto [source, target] = random_pair(random);
    View a = View::whole(source);
    View b = View::whole(target);
    for (std::size_t k = 0; k < static_cast<std::size_t>(source->rank()); ++k) {
      for (View* view : {&a, &b}) {
        view->extents[k] = random.between(0, source->space()[k].extent);
        view->lower[k] = random.between(0, source->space()[k].extent - view->extents[k]);
      }
    }
    const std::int64_t distance = random.between(-40, 40);
    std::set<std::int64_t> bytes;
    const auto walk = [&](const View& view, auto visit) {
      for_each_point(view.extents, view.mapping->rank(), [&](Point point) {
        for (std::size_t k = 0; k < point.size(); ++k) point[k] += view.lower[k];
        for (std::size_t f = 0; f < view.mapping->fields().size(); ++f) {
          for (std::int64_t i = 0; i < view.mapping->fields()[f].field.bytes; ++i) {
            visit(offset_of(*view.mapping, f, point) + i);
          }
        }
      });
    };
    walk(a, [&](std::int64_t byte) { bytes.insert(byte); });
    bool shared = false;
    walk(b, [&](std::int64_t byte) { shared |= bytes.count(byte + distance) > 0; });
    found += shared ? 1 : 0;
    EXPECT_EQ(overlaps(a, b, distance), shared);
  }
  EXPECT(found > 100);
}
