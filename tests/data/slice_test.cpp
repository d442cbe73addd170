// Slices: each index of a slice lies where the index of the array that it stands for lies.
#include "data/slice.hpp"

#include <vector>

#include "data/arrays.hpp"
#include "support/test.hpp"

using namespace tranship;
using test::offset_of;

namespace {

std::shared_ptr<const Mapping> mapping_of(const char* layout) {
  return Mapping::make({{"x", 9}, {"y", 7}}, {{"a", "f4", 4}, {"b", "u2", 2}},
                       Layout::parse(layout).value())
      .value();
}

/// Returns every slice of a dimension of `extent` indices: all ranges, steps and single indices.
std::vector<DimensionSlice> all_slices(std::int64_t extent) {
  std::vector<DimensionSlice> slices;
  for (std::int64_t start = 0; start < extent; ++start) {
    slices.push_back({start, 1, 1, true});
    for (const std::int64_t step : {-3, -1, 1, 2}) {
      for (std::int64_t count = 0; count <= extent; ++count) {
        const std::int64_t last = start + (count - 1) * step;
        if (count == 0 || (last >= 0 && last < extent)) {
          slices.push_back({start, count, step, false});
        }
      }
    }
  }
  return slices;
}

/// Returns the point of the array for a point of the slice, by the definition of a slice.
Point point_in_whole(const Point& point, const View& view,
                     const std::vector<DimensionSlice>& slices) {
  Point whole{};
  std::size_t kept = 0;
  for (std::size_t k = 0; k < slices.size(); ++k) {
    const std::int64_t index = slices[k].drop ? 0 : point[kept++];
    whole[k] = view.lower[k] + slices[k].start + index * slices[k].step;
  }
  return whole;
}

}  // namespace

TEST(slices_hold_the_bytes_that_their_indices_stand_for) {
  const auto mapping = mapping_of("x, F, y");
  View view = View::whole(mapping);
  view.lower = {2, 1};
  view.extents = {5, 4};
  for (const DimensionSlice& x : all_slices(5)) {
    for (const DimensionSlice& y : all_slices(4)) {
      const std::vector<DimensionSlice> slices{x, y};
      const View part = slice(view, slices).value();
      EXPECT_EQ(part.points(), (x.drop ? 1 : x.count) * (y.drop ? 1 : y.count));
      test::for_each_point(part.extents, part.mapping->rank(), [&](const Point& point) {
        Point within = point;
        for (std::size_t k = 0; k < within.size(); ++k) within[k] += part.lower[k];
        const Point whole = point_in_whole(point, view, slices);
        for (std::size_t f = 0; f < 2; ++f) {
          EXPECT_EQ(offset_of(*part.mapping, f, within), offset_of(*mapping, f, whole));
        }
      });
    }
  }
}

TEST(ranges_of_blocked_dimensions_keep_their_layout) {
  const View view = View::whole(mapping_of("x:4, F, x, y"));
  const View part = slice(view, {{3, 4, 1, false}, {1, 2, 1, false}}).value();
  EXPECT(part.mapping == view.mapping);
  EXPECT_EQ(part.lower[0], 3);
  EXPECT_EQ(part.extents[1], 2);
}

TEST(slices_that_cannot_be_are_refused_with_the_reason) {
  const View blocked = View::whole(mapping_of("x:4, F, x, y"));
  const struct {
    std::vector<DimensionSlice> slices;
    ErrorCode code;
    const char* reason;
  } cases[] = {
      {{{0, 10, 1, false}, {0, 7, 1, false}}, ErrorCode::out_of_range, "\"x\" lie outside its 9"},
      {{{0, 9, 1, false}, {7, 1, 1, true}}, ErrorCode::out_of_range, "\"y\" lie outside its 7"},
      {{{4, 6, -1, false}, {0, 7, 1, false}}, ErrorCode::out_of_range, "indices 4 to -1"},
      {{{0, 4, 2, false}, {0, 7, 1, false}}, ErrorCode::unsupported, "\"x\" is stored in blocks"},
  };
  for (const auto& one : cases) {
    const auto part = slice(blocked, one.slices);
    REQUIRE(!part.ok());
    EXPECT(part.error().code == one.code);
    EXPECT(part.error().text().find(one.reason) != std::string::npos);
  }
}
