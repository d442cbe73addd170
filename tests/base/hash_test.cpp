#include "base/hash.hpp"

#include <set>
#include <vector>

#include "support/test.hpp"

using namespace tranship;

TEST(a_text_has_the_hash_that_other_processes_find) {
  EXPECT_EQ(hash_of(""), 0xcbf29ce484222325u);
  EXPECT_EQ(hash_of("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(hash_of("foobar"), 0x85944171f73967e8u);
}

TEST(lists_that_differ_in_one_number_or_in_length_have_other_hashes) {
  std::set<std::uint64_t> seen;
  for (std::size_t count = 0; count < 5; ++count) {
    std::vector<std::int64_t> numbers(count, 0);
    EXPECT(seen.insert(hash_of(numbers)).second);
    for (std::int64_t& number : numbers) {
      number = 7;
      EXPECT(seen.insert(hash_of(numbers)).second);
      number = 0;
    }
  }
}
