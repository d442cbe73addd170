// Overlaps: two boxes overlap exactly if they share a byte.
#include "data/overlap.hpp"

#include <set>

#include "data/arrays.hpp"
#include "support/test.hpp"

using namespace tranship;
using test::for_each_byte;

TEST(overlap_is_exact_on_small_boxes) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    const auto [source, target] = test::random_pair(random);
    const View a = test::random_view(random, source);
    const View b = test::random_view(random, target);
    const std::int64_t distance = random.between(-40, 40);
    std::set<std::int64_t> bytes;
    for_each_byte(a, [&](std::int64_t byte) { bytes.insert(byte); });
    bool shared = false;
    for_each_byte(b, [&](std::int64_t byte) { shared |= bytes.count(byte + distance) > 0; });
    found += shared ? 1 : 0;
    EXPECT_EQ(overlaps(a, b, distance), shared);
    EXPECT_EQ(overlaps(b, a, -distance), shared);
  }
  EXPECT(found > 100);
}

TEST(a_box_overlaps_itself_unless_it_is_empty) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const View view = test::random_view(random, test::random_pair(random).source);
    EXPECT_EQ(overlaps(view, view, 0), view.points() > 0);
  }
}
