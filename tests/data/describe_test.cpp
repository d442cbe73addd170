// Views as text: the reader gets the view that was described, or an error.
#include "data/describe.hpp"

#include <string>

#include "data/arrays.hpp"
#include "data/slice.hpp"
#include "support/test.hpp"

using namespace tranship;
using test::offset_of;

namespace {

/// Checks that the view that is read lies where `view` does, counted from `origin`.
void expect_same(const View& view, bool named, std::int64_t origin) {
  const std::int64_t bytes = view.mapping->end_bytes() - origin;
  const auto read = described(describe(view, named, origin), bytes);
  REQUIRE(read.ok());
  EXPECT_EQ(read->named, named);
  EXPECT(read->view.mapping->space() == view.mapping->space());
  for (std::size_t k = 0; k < static_cast<std::size_t>(view.mapping->rank()); ++k) {
    EXPECT_EQ(read->view.lower[k], view.lower[k]);
    EXPECT_EQ(read->view.extents[k], view.extents[k]);
  }
  test::for_each_point(View::whole(view.mapping).extents, view.mapping->rank(),
                       [&](const Point& point) {
                         for (std::size_t f = 0; f < view.mapping->fields().size(); ++f) {
                           EXPECT_EQ(offset_of(*read->view.mapping, f, point) + origin,
                                     offset_of(*view.mapping, f, point));
                         }
                       });
  // One byte less than the array needs is refused.
  EXPECT(!described(describe(view, named, origin), bytes - 1).ok());
}

}  // namespace

TEST(reading_what_was_described_gives_the_same_view) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const View view = test::random_view(random, test::random_pair(random).source);
    expect_same(view, random.chance(0.5), 0);
  }
}

TEST(strided_views_are_counted_from_their_first_byte) {
  const auto dense =
      Mapping::make({{"x", 6}, {"y", 5}}, {{"", "f4", 4}}, Layout::parse("F, y, x").value())
          .value();
  const View part = slice(View::whole(dense), {{5, 3, -2, false}, {1, 2, 1, false}}).value();
  expect_same(part, true, part.mapping->begin_bytes());
}

TEST(texts_that_describe_no_array_are_refused) {
  const auto mapping =
      Mapping::make({{"x", 4}}, {{"", "f4", 4}}, Layout::parse("F, x").value()).value();
  const std::string text = describe(View::whole(mapping), true, 0);
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT(!described(text.substr(0, length), 16).ok());
  }
  View outside = View::whole(mapping);
  outside.lower[0] = 1;
  const auto read = described(describe(outside, true, 0), 16);
  REQUIRE(!read.ok());
  EXPECT(read.error().text().find("outside its array") != std::string::npos);
}
