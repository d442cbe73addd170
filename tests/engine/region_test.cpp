#include "engine/region.hpp"

#include <array>
#include <vector>

#include "support/test.hpp"

using namespace tranship;

namespace {

/// Returns an array of 4 x 6 bytes. names: Of its dimensions; empty: it has none of its own.
Array array_of(const std::vector<std::string>& names) {
  const bool named = !names.empty();
  IndexSpace space{{named ? names[0] : "d0", 4}, {named ? names[1] : "d1", 6}};
  const Mapping::StridedField field{{"f0", "u1", 1}, 0, {6, 1}};
  Array array;
  array.view = View::whole(*Mapping::make_strided(std::move(space), {field}));
  array.named = named;
  return array;
}

std::vector<std::int64_t> box_of(const Array& array) {
  const View& view = array.view;
  return {view.lower[0], view.lower[1], view.extents[0], view.extents[1]};
}

TEST(a_region_restricts_both_ends_by_the_names_of_their_own_dimensions) {
  CopyPair ends{array_of({"x", "y"}), array_of({"y", "x"})};
  const std::vector<NamedRange> region{{"x", 1, 3}};
  EXPECT(restrict_to(ends, region).ok());
  EXPECT(box_of(ends.source) == std::vector<std::int64_t>({1, 0, 2, 6}));
  EXPECT(box_of(ends.target) == std::vector<std::int64_t>({0, 1, 4, 2}));
}

TEST(an_array_without_names_has_those_of_the_other_by_position) {
  const std::vector<NamedRange> region{{"y", 2, 6}};
  for (const bool source_named : {true, false}) {
    CopyPair ends{array_of({}), array_of({})};
    (source_named ? ends.source : ends.target) = array_of({"x", "y"});
    EXPECT(restrict_to(ends, region).ok());
    for (const Array* array : {&ends.source, &ends.target}) {
      EXPECT(box_of(*array) == std::vector<std::int64_t>({0, 2, 4, 4}));
    }
  }
}

TEST(ends_that_are_parts_already_stay_as_they_are) {
  CopyPair ends{array_of({"x", "y"}), array_of({"x", "y"})};
  const std::vector<NamedRange> region{{"x", 3, 4}, {"y", 0, 0}};
  EXPECT(restrict_to(ends, region, {false, true}).ok());
  EXPECT(box_of(ends.source) == std::vector<std::int64_t>({0, 0, 4, 6}));
  EXPECT(box_of(ends.target) == std::vector<std::int64_t>({3, 0, 1, 0}));
}

TEST(a_region_that_does_not_fit_is_refused_with_its_name_and_bounds) {
  const auto refusal = [](const NamedRange& range) {
    CopyPair ends{array_of({"x", "y"}), array_of({"x", "y"})};
    const Status status = restrict_to(ends, {&range, 1});
    return status ? Error{} : status.error();
  };
  const Error unknown = refusal({"z", 0, 1});
  EXPECT(unknown.code == ErrorCode::invalid_argument);
  EXPECT_EQ(unknown.message, "the region names dimension \"z\"");
  EXPECT_EQ(unknown.hint, "the array's dimensions are x, y");
  const std::array<NamedRange, 3> outside{{{"x", -1, 2}, {"x", 2, 1}, {"x", 0, 5}}};
  for (const NamedRange& range : outside) EXPECT(refusal(range).code == ErrorCode::out_of_range);
  EXPECT_EQ(refusal(outside[2]).message, "the region [0, 5) of \"x\" lies outside [0, 4)");
}

}  // namespace
