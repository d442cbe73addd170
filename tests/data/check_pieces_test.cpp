#include "data/check_pieces.hpp"

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

/// Pieces of any lengths in one block of memory, in any order, some of them far away, so that most
/// lie close together for their block's size.
TEST(pieces_that_are_read_and_written_are_found) {
  Random random(4);
  int found = 0;
  for (int round = 0; round < 4000; ++round) {
    const std::int64_t count = random.between(1, 100);
    std::vector<std::int64_t> lengths, sources, targets;
    const std::int64_t unit = std::int64_t{1} << random.below(5);
    std::int64_t from = 0, to = random.below(3000) * unit;
    const std::int64_t gap_most = random.chance(0.5) ? 2 : 100;
    for (std::int64_t k = 0; k < count; ++k) {
      lengths.push_back(random.below(30) * unit);
      sources.push_back(from);
      targets.push_back(to);
      from += (random.below(gap_most) + lengths.back() / unit) * unit;
      to += (random.below(gap_most) + lengths.back() / unit) * unit;
    }
    if (random.chance(0.3)) targets.back() += 1 << 20;
    if (random.chance(0.3)) targets[place_below(random, targets.size())] = random.below(to + 1);
    for (std::size_t k = lengths.size(); k > 1; --k) {
      const std::size_t other = place_below(random, k);
      std::swap(lengths[k - 1], lengths[other]);
      std::swap(sources[k - 1], sources[other]);
      std::swap(targets[k - 1], targets[other]);
    }
    const std::int64_t bytes = std::max(from, to + (2 << 20));
    const std::int64_t distance = random.between(-2000, 2000);
    const auto answer = check_pieces({sources, targets, lengths}, {bytes, bytes, distance});
    bool wrong = overlap(targets, lengths);
    for (std::size_t a = 0; a < lengths.size() && !wrong; ++a) {
      for (std::size_t b = 0; b < lengths.size(); ++b) {
        const std::int64_t written = targets[b] + distance;
        const std::int64_t begin = std::max(sources[a], written);
        wrong |= begin < std::min(sources[a] + lengths[a], written + lengths[b]);
      }
    }
    EXPECT(answer.ok() == !wrong);
    found += wrong ? 1 : 0;
  }
  EXPECT(found > 500 && found < 3500);
}

}  // namespace
