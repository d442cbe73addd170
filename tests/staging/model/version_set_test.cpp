#include "staging/model/version_set.hpp"

#include <random>
#include <set>

#include "support/test.hpp"

using namespace tranship::staging;

TEST(a_set_of_versions_holds_what_was_inserted) {
  std::mt19937_64 random(5);
  const auto below = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  };
  for (int k = 0; k < 500; ++k) {
    VersionSet set(VersionSet::Excess::join, 1000);
    std::set<std::int64_t> all;
    for (int one = 0; one < 12; ++one) {
      const std::int64_t first = below(40);
      const std::int64_t last = first + below(6) - 1;
      set.insert(first, last);
      for (std::int64_t v = first; v <= last; ++v) all.insert(v);
    }
    for (std::int64_t v = -1; v < 50; ++v) EXPECT_EQ(set.contains(v), all.contains(v));
    const std::int64_t begin = below(30);
    const std::int64_t end = begin + below(20) - 1;
    std::set<std::int64_t> missing;
    for (const auto& [first, last] : set.gaps(begin, end)) {
      EXPECT(first <= last);
      for (std::int64_t v = first; v <= last; ++v) EXPECT(missing.insert(v).second);
    }
    for (std::int64_t v = -1; v < 60; ++v) {
      EXPECT_EQ(missing.contains(v), v >= begin && v <= end && !all.contains(v));
    }
  }
}

TEST(a_set_of_versions_reaches_the_ends_of_their_range_and_stays_small) {
  VersionSet all;
  all.insert(INT64_MIN, INT64_MAX);
  EXPECT(all.contains(INT64_MIN) && all.contains(INT64_MAX) && all.contains(0));
  all.insert(INT64_MAX, INT64_MAX);
  all.insert(INT64_MIN, INT64_MIN);
  EXPECT_EQ(all.intervals(), 1U);
  EXPECT(all.gaps(INT64_MIN, INT64_MAX).empty());
  VersionSet none;
  none.insert(3, 2);
  EXPECT_EQ(none.gaps(INT64_MIN, INT64_MAX).size(), 1U);
  VersionSet joined(VersionSet::Excess::join, 4);
  VersionSet forgot(VersionSet::Excess::forget, 4);
  for (std::int64_t v = 0; v < 100; ++v) {
    joined.insert(2 * v, 2 * v);
    forgot.insert(2 * v, 2 * v);
  }
  EXPECT(joined.intervals() == 4 && forgot.intervals() == 4);
  EXPECT(joined.contains(0) && joined.contains(1) && joined.contains(198) && !joined.contains(197));
  EXPECT(!forgot.contains(0) && forgot.contains(192) && !forgot.contains(193));
}
