// The table of places that a GPU reads.
#include "data/run_list.hpp"

#include <random>
#include <vector>

#include "support/test.hpp"

using namespace tranship;

TEST(numbers_are_written_shifted_whatever_their_count) {
  std::mt19937_64 random(1);
  for (std::size_t count = 0; count < 70; ++count) {
    for (const int shift : {0, 1, 4, 12, 31}) {
      std::vector<std::int64_t> numbers(count);
      for (std::int64_t& number : numbers) {
        number = static_cast<std::int64_t>((random() >> 32) << shift);
      }
      std::vector<std::uint32_t> written(count + 1, 7);
      write_shifted(numbers, shift, written.data());
      for (std::size_t k = 0; k < count; ++k) {
        EXPECT_EQ(std::int64_t{written[k]} << shift, numbers[k]);
      }
      EXPECT_EQ(written[count], 7U);
    }
  }
}
