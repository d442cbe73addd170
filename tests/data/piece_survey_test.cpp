#include "data/piece_survey.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "base/random.hpp"
#include "data/pieces.hpp"
#include "support/test.hpp"

using namespace tranship;
using tranship::test::Pieces;

namespace {

constexpr std::int64_t block_bytes = 5000;

/// Pieces of some unit; one in twenty numbers is anything, also negative or huge.
Pieces any_pieces(Random& random) {
  Pieces pieces;
  const std::int64_t unit = std::int64_t{1} << random.below(5);
  const bool equal = random.chance(0.5);
  const bool strange = random.chance(0.3);
  const auto number = [&](std::int64_t most) {
    if (strange && random.chance(0.05)) {
      const std::int64_t huge = std::int64_t{1} << random.between(12, 62);
      return random.chance(0.5) ? huge : -huge;
    }
    return random.below(most / unit) * unit;
  };
  for (std::int64_t k = random.below(70); k > 0; --k) {
    pieces.source.push_back(number(block_bytes));
    pieces.target.push_back(number(block_bytes));
    pieces.lengths.push_back(equal ? 4 * unit : number(100));
  }
  return pieces;
}

std::int64_t grain_of(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  for (std::int64_t grain = std::int64_t{1} << 62; grain > 0; grain /= 2) {
    bool divides = true;
    bool any = false;
    for (const auto* numbers : {&a, &b}) {
      for (const std::int64_t number : *numbers) {
        divides = divides && number % grain == 0;
        any = any || number != 0;
      }
    }
    if (!any) return 0;
    if (divides) return grain;
  }
  return 0;
}

TEST(a_survey_tells_what_a_look_at_each_piece_tells) {
  Random random(1);
  for (int round = 0; round < 3000; ++round) {
    const Pieces pieces = any_pieces(random);
    bool inside = true;
    bool ascending = true;
    bool equal = true;
    std::int64_t bytes = 0;
    for (std::size_t k = 0; k < pieces.lengths.size(); ++k) {
      const std::int64_t length = pieces.lengths[k];
      for (const std::int64_t offset : {pieces.source[k], pieces.target[k]}) {
        inside = inside && length >= 0 && length <= block_bytes && offset >= 0 &&
                 offset <= block_bytes - length;
      }
      equal = equal && length == pieces.lengths[0];
    }
    const PieceSurvey seen = survey(pieces.lists(), block_bytes, block_bytes);
    EXPECT(seen.inside == inside);
    EXPECT(seen.equal == equal);
    if (!inside) continue;
    for (std::size_t k = 0; k < pieces.lengths.size(); ++k) {
      bytes += pieces.lengths[k];
      if (k > 0) ascending &= pieces.target[k] >= pieces.target[k - 1] + pieces.lengths[k - 1];
    }
    EXPECT(seen.ascending == ascending);
    EXPECT(seen.bytes == bytes);
    EXPECT(seen.source_grain == grain_of(pieces.source, pieces.lengths));
    EXPECT(seen.target_grain == grain_of(pieces.target, pieces.lengths));
    EXPECT(seen.length_grain == grain_of(pieces.lengths, pieces.lengths));
    const auto longest = std::max_element(pieces.lengths.begin(), pieces.lengths.end());
    if (longest == pieces.lengths.end() || *longest == 0) continue;
    EXPECT(seen.length_bound >= *longest && seen.length_bound < 2 * *longest);
    EXPECT(!equal || seen.length_bound == *longest);
  }
}

TEST(equal_places_are_found_in_any_list) {
  Random random(2);
  for (int round = 0; round < 500; ++round) {
    const int shift = static_cast<int>(random.below(4));
    std::vector<std::int64_t> places;
    for (std::int64_t k = random.below(40); k > 0; --k)
      places.push_back(random.below(300) << shift);
    const std::set<std::int64_t> different(places.begin(), places.end());
    EXPECT(all_differ(places, std::int64_t{300} << shift, shift) ==
           (different.size() == places.size()));
  }
}

TEST(neighbours_that_follow_each_other_are_noticed) {
  Pieces pieces;
  for (std::int64_t k = 0; k < 1000; ++k) {
    pieces.source.push_back(64 * k);
    pieces.target.push_back(64 * k + 7);
    pieces.lengths.push_back(64);
  }
  EXPECT(mostly_follow(pieces.lists()));
  for (std::size_t k = 0; k < 1000; ++k) pieces.source[k] = 64 * ((7 * static_cast<int>(k)) % 1000);
  EXPECT(!mostly_follow(pieces.lists()));
}

}  // namespace
