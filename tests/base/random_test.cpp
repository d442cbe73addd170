#include "base/random.hpp"

#include "support/test.hpp"

using namespace tranship;

TEST(a_seed_gives_the_same_numbers_everywhere) {
  Random random(42);
  EXPECT_EQ(random.next(), 13679457532755275413u);  // SplitMix64's published sequence
  for (int k = 0; k < 1000; ++k) {
    const auto number = random.between(-3, 3);
    EXPECT(number >= -3 && number <= 3);
  }
}
