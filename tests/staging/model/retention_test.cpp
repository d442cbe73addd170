// Discarded versions are remembered in bounded memory.
#include "staging/model/retention.hpp"

#include <random>
#include <set>

#include "support/test.hpp"

using namespace tranship::staging;

TEST(versions_that_follow_each_other_take_the_room_of_one) {
  DiscardedVersions discarded;
  for (std::int64_t version = 0; version < 100'000; ++version) discarded.insert(version);
  for (std::int64_t version = -1; version > -1000; --version) discarded.insert(version);
  EXPECT_EQ(discarded.intervals(), 1U);
  EXPECT(discarded.contains(-999) && discarded.contains(99'999));
  EXPECT(!discarded.contains(-1000) && !discarded.contains(100'000));
  for (const std::int64_t end : {INT64_MIN, INT64_MAX, INT64_MAX - 1, INT64_MIN + 1}) {
    discarded.insert(end);
    discarded.insert(end);
    EXPECT(discarded.contains(end));
  }
  EXPECT_EQ(discarded.intervals(), 3U);
}

TEST(discarded_versions_are_those_that_were_inserted_and_all_below_the_low_water_mark) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    const std::size_t intervals_max = 1 + random() % 20;
    DiscardedVersions discarded(intervals_max);
    std::set<std::int64_t> known;
    for (int k = 0; k < 200; ++k) {
      const auto version = static_cast<std::int64_t>(random() % 300) - 150;
      discarded.insert(version);
      known.insert(version);
      REQUIRE(discarded.intervals() <= intervals_max);
    }
    for (std::int64_t version = -160; version < 160; ++version) {
      EXPECT_EQ(discarded.contains(version),
                known.contains(version) || version <= discarded.low_water());
    }
    EXPECT(discarded.low_water() == INT64_MIN || known.contains(discarded.low_water()));
  }
}
