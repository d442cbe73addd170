#include "data/piece_survey.hpp"

#include <algorithm>
#include <vector>

#include "base/lent_vector.hpp"
#include "base/processor.hpp"

namespace tranship {
namespace {

using Word = std::uint64_t;  // its sums wrap; a negative number has the highest bit

/// What the loop over all pieces collects.
struct Collected {
  Word outside = 0;
  Word backwards = 0;
  Word differ = 0;
  Word sources = 0;
  Word targets = 0;
  Word lengths = 0;
  Word bytes = 0;
};

/// The loop itself, which is compiled for several processors.
inline __attribute__((always_inline)) Collected collect(const PieceLists& pieces, Word source_bytes,
                                                        Word target_bytes) {
  const std::int64_t* sources = pieces.source_offsets.data();
  const std::int64_t* targets = pieces.target_offsets.data();
  const std::int64_t* lengths = pieces.lengths.data();
  const std::size_t count = pieces.lengths.size();
  const Word first = static_cast<Word>(lengths[0]);
  Collected all;
  const auto add = [&](std::size_t k) {
    const auto length = static_cast<Word>(lengths[k]);
    const auto source = static_cast<Word>(sources[k]);
    const auto target = static_cast<Word>(targets[k]);
    const Word source_room = source_bytes - length;
    const Word target_room = target_bytes - length;
    all.outside |= length | source | target | source_room | target_room | (source_room - source) |
                   (target_room - target);
    all.differ |= length ^ first;
    all.sources |= source;
    all.targets |= target;
    all.lengths |= length;
    all.bytes += length;
  };
  add(0);
  for (std::size_t k = 1; k < count; ++k) {
    add(k);
    const Word end_before = static_cast<Word>(targets[k - 1]) + static_cast<Word>(lengths[k - 1]);
    all.backwards |= static_cast<Word>(targets[k]) - end_before;
  }
  return all;
}

Collected collect_plainly(const PieceLists& pieces, Word source_bytes, Word target_bytes) {
  return collect(pieces, source_bytes, target_bytes);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) Collected collect_with_avx2(const PieceLists& pieces,
                                                            Word source_bytes, Word target_bytes) {
  return collect(pieces, source_bytes, target_bytes);
}
#else
Collected collect_with_avx2(const PieceLists& pieces, Word source_bytes, Word target_bytes) {
  return collect(pieces, source_bytes, target_bytes);
}
#endif

std::int64_t lowest_bit(Word word) { return static_cast<std::int64_t>(word & (~word + 1)); }

}  // namespace

PieceSurvey survey(const PieceLists& pieces, std::int64_t source_bytes, std::int64_t target_bytes) {
  if (pieces.lengths.empty()) return {};
  static const auto collected = has_avx2() ? collect_with_avx2 : collect_plainly;
  const Collected all =
      collected(pieces, static_cast<Word>(source_bytes), static_cast<Word>(target_bytes));
  const Word sign = Word{1} << 63;
  PieceSurvey found;
  found.inside = (all.outside & sign) == 0;
  found.ascending = (all.backwards & sign) == 0;
  found.equal = all.differ == 0;
  found.bytes = static_cast<std::int64_t>(all.bytes);
  found.source_grain = lowest_bit(all.sources | all.lengths);
  found.target_grain = lowest_bit(all.targets | all.lengths);
  found.length_grain = lowest_bit(all.lengths);
  found.length_bound = static_cast<std::int64_t>(all.lengths);
  return found;
}

bool all_differ(std::span<const std::int64_t> places, std::int64_t most, int shift) {
  LentVector<std::uint8_t> marks;
  marks->assign(static_cast<std::size_t>((most >> shift) + 1), 0);
  std::uint8_t* const mark = marks->data();
  std::uint8_t met = 0;
  for (const std::int64_t place : places) {
    const auto k = static_cast<std::size_t>(place >> shift);
    met |= mark[k];
    mark[k] = 1;
  }
  return met == 0;
}

bool mostly_follow(const PieceLists& pieces) {
  constexpr std::size_t looks = 64;
  const std::size_t count = pieces.lengths.size();
  if (count < 2) return false;
  const std::size_t step = std::max<std::size_t>((count - 1) / looks, 1);
  std::size_t follow = 0;
  std::size_t looked = 0;
  for (std::size_t k = 1; k < count; k += step, ++looked) {
    const bool sources =
        pieces.source_offsets[k] == pieces.source_offsets[k - 1] + pieces.lengths[k - 1];
    const bool targets =
        pieces.target_offsets[k] == pieces.target_offsets[k - 1] + pieces.lengths[k - 1];
    if (sources && targets) ++follow;
  }
  return 2 * follow > looked;
}

}  // namespace tranship
