#include "engine/check_pieces.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "support/test.hpp"

using namespace tranship;

namespace {

/// Whether two of the ranges have a byte in common.
bool overlap(const std::vector<std::int64_t>& offsets, const std::vector<std::int64_t>& lengths) {
  for (std::size_t a = 0; a < offsets.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const std::int64_t begin = std::max(offsets[a], offsets[b]);
      const std::int64_t end = std::min(offsets[a] + lengths[a], offsets[b] + lengths[b]);
      if (begin < end) return true;
    }
  }
  return false;
}

std::size_t place_below(Random& random, std::size_t count) {
  return static_cast<std::size_t>(random.below(static_cast<std::int64_t>(count)));
}

/// Returns offsets of pieces in any order, with gaps in which all of them fit if they have one
/// length.
std::vector<std::int64_t> some_offsets(Random& random, const std::vector<std::int64_t>& lengths,
                                       std::int64_t gap_most) {
  std::vector<std::int64_t> offsets;
  std::int64_t at = random.below(gap_most + 1);
  for (const std::int64_t length : lengths) {
    offsets.push_back(at);
    at += length + random.below(gap_most + 1);
  }
  for (std::size_t k = offsets.size(); k > 1; --k) {
    std::swap(offsets[k - 1], offsets[place_below(random, k)]);
  }
  return offsets;
}

TEST(pieces_that_overlap_in_the_target_are_found_whatever_their_lengths) {
  Random random(3);
  int found = 0;
  for (int round = 0; round < 4000; ++round) {
    const bool equal = random.chance(0.7);
    const std::int64_t length = random.between(1, 70);
    std::vector<std::int64_t> lengths;
    for (std::int64_t k = random.between(1, 40); k > 0; --k) {
      lengths.push_back(equal ? length : random.between(0, 70));
    }
    const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
    auto offsets = some_offsets(random, lengths, random.chance(0.5) ? 3 : 200);
    if (random.chance(0.5)) {
      std::int64_t& moved = offsets[place_below(random, offsets.size())];
      moved = std::max<std::int64_t>(moved + random.between(-longest, longest), 0);
    }
    std::int64_t bytes = 0;
    for (const std::int64_t offset : offsets) bytes = std::max(bytes, offset + longest);
    const std::vector<std::int64_t> sources(lengths.size(), 0);
    const auto answer = check_pieces({sources, offsets, lengths}, {longest, bytes, {}});
    const bool wrong = overlap(offsets, lengths);
    EXPECT(answer.ok() == !wrong);
    found += wrong ? 1 : 0;
  }
  EXPECT(found > 500 && found < 3500);
}

}  // namespace
