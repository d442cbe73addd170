// The map by name, compared with an ordered map.
#include "staging/model/by_name.hpp"

#include <map>

#include "base/random.hpp"
#include "support/test.hpp"

using namespace tranship;
using tranship::staging::ByName;

TEST(things_by_name_are_those_of_an_ordered_map) {
  ByName<int> things;
  std::map<std::string, int> expected;
  Random random(11);
  const auto draw = [&] {
    return "a variable with a long name " + std::to_string(random.below(60));
  };
  const auto even = [](int value) { return value % 2 == 0; };
  for (int turn = 0; turn < 5000; ++turn) {
    const std::string name = draw();
    if (random.below(3) == 0) {
      EXPECT_EQ(things.erase(name), expected.erase(name) == 1);
    } else {
      EXPECT_EQ(things.emplace(name, turn).second, expected.emplace(name, turn).second);
    }
    EXPECT_EQ(things.size(), expected.size());
    const std::string first = draw();
    const std::size_t count_max = static_cast<std::size_t>(random.below(20));
    std::vector<std::string> names;
    for (auto one = expected.lower_bound(first); one != expected.end(); ++one) {
      if (names.size() < count_max && even(one->second)) names.push_back(one->first);
    }
    EXPECT(things.names_from(first, count_max, even) == names);
    const auto found = things.find(first);
    const auto known = expected.find(first);
    REQUIRE((found == things.end()) == (known == expected.end()));
    if (known != expected.end()) EXPECT_EQ(found->second, known->second);
  }
}
