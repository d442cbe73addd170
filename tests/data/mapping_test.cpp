// Mappings: every layout gives each byte of an array its own offset.
#include "data/mapping.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "data/arrays.hpp"
#include "support/test.hpp"

using namespace tranship;
using test::for_each_byte;
using test::for_each_point;
using test::offset_of;

TEST(layouts_are_injective_and_stay_inside) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const auto mapping = test::random_pair(random).source;
    std::set<std::int64_t> seen;
    for_each_byte(View::whole(mapping), [&](std::int64_t offset) {
      EXPECT(seen.insert(offset).second);
      EXPECT(offset >= 0 && offset < mapping->end_bytes());
    });
    EXPECT_EQ(static_cast<std::int64_t>(seen.size()), View::whole(mapping).bytes());
  }
}

TEST(without_blocks_there_is_no_padding) {
  for (const char* text : {"F, x, y", "x, F, y", "y, x, F", "F, y, x"}) {
    const auto mapping = Mapping::make({{"x", 7}, {"y", 5}}, {{"a", "f4", 4}, {"b", "i2", 2}},
                                       Layout::parse(text).value())
                             .value();
    EXPECT_EQ(mapping->end_bytes(), 7 * 5 * 6);
    EXPECT_EQ(View::whole(mapping).bytes(), mapping->end_bytes());
  }
}

TEST(blocks_that_do_not_divide_their_dimension_leave_padding) {
  const auto mapping = Mapping::make({{"x", 10}}, {{"a", "u1", 1}, {"b", "u2", 2}},
                                     Layout::parse("x:4, F, x").value())
                           .value();
  EXPECT_EQ(mapping->end_bytes(), 12 * 3);
  EXPECT_EQ(View::whole(mapping).bytes(), 10 * 3);
}

TEST(permuted_mappings_place_each_point_where_it_was) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const auto mapping = test::random_pair(random).source;
    const auto rank = static_cast<std::size_t>(mapping->rank());
    std::vector<int> order(rank);
    for (std::size_t k = 0; k < rank; ++k) order[k] = static_cast<int>(k);
    std::rotate(order.begin(), order.begin() + random.below(static_cast<std::int64_t>(rank)),
                order.end());
    const auto permuted = mapping->permuted(order);
    EXPECT_EQ(permuted->end_bytes(), mapping->end_bytes());
    for_each_point(View::whole(mapping).extents, mapping->rank(), [&](const Point& point) {
      Point other{};
      for (std::size_t k = 0; k < rank; ++k) other[k] = point[static_cast<std::size_t>(order[k])];
      for (std::size_t f = 0; f < mapping->fields().size(); ++f) {
        EXPECT_EQ(offset_of(*permuted, f, other), offset_of(*mapping, f, point));
      }
    });
  }
}

TEST(slots_are_injective_and_never_larger_than_the_blocks_of_the_box) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const auto mapping = test::random_pair(random).source;
    Point extents{};
    std::int64_t points = 1;
    for (std::size_t k = 0; k < static_cast<std::size_t>(mapping->rank()); ++k) {
      extents[k] = random.between(1, mapping->space()[k].extent);
      points *= extents[k];
    }
    const auto slot = mapping->slot(extents);
    std::set<std::int64_t> seen;
    for_each_byte(View::whole(slot), [&](std::int64_t offset) {
      EXPECT(seen.insert(offset).second);
      EXPECT(offset >= 0 && offset < slot->end_bytes());
    });
    EXPECT_EQ(static_cast<std::int64_t>(seen.size()), points * mapping->point_bytes());
  }
}

TEST(keys_tell_mappings_apart) {
  const auto make = [](const char* layout, const char* field) {
    return Mapping::make({{"x", 6}, {"y", 4}}, {{field, "f4", 4}, {"b", "f4", 4}},
                         Layout::parse(layout).value())
        .value();
  };
  const auto mapping = make("F, x, y", "a");
  EXPECT_EQ(make("F, x, y", "a")->key(), mapping->key());
  EXPECT_EQ(make("F, x, y", "a")->hash(), mapping->hash());
  EXPECT(make("x, F, y", "a")->key() != mapping->key());
  EXPECT(make("F, y, x", "a")->key() != mapping->key());
  EXPECT(make("F, x, y", "c")->key() != mapping->key());
}

TEST(strided_mappings_may_run_backwards) {
  const auto mapping =
      Mapping::make_strided({{"i", 4}, {"j", 3}}, {{{"", "f8", 8}, 72, {-24, 8}}}).value();
  EXPECT_EQ(mapping->begin_bytes(), 0);
  EXPECT_EQ(mapping->end_bytes(), 4 * 3 * 8);
  EXPECT_EQ(mapping->layout().to_string(), std::string("F, j, i"));
}

TEST(arrays_that_cannot_be_are_refused_with_the_reason) {
  const Layout layout = Layout::parse("F, x").value();
  const FieldSpace field{{"a", "f4", 4}};
  const struct {
    IndexSpace space;
    FieldSpace fields;
    const char* reason;
  } cases[] = {
      {{{"x", -1}}, field, "negative extent"},
      {{{"x", 2}, {"x", 2}}, field, "named twice"},
      {{{"F", 2}}, field, "cannot name a dimension"},
      {{{"", 2}}, field, "cannot name a dimension"},
      {{{"x", 2}}, {}, "at least one field"},
      {{{"x", 2}}, {{"a", "f4", 0}}, "has no size"},
      {{{"x", 2}}, {{"a", "f4", 4}, {"a", "f4", 4}}, "named twice"},
      {{{"x", std::int64_t{1} << 60}}, field, "larger than 2^51 points"},
      {IndexSpace(dimensions_max + 1, Dimension{"x", 1}), field, "at most 16"},
  };
  for (const auto& one : cases) {
    const auto made = Mapping::make(one.space, one.fields, layout);
    REQUIRE(!made.ok());
    EXPECT(made.error().text().find(one.reason) != std::string::npos);
  }
}
