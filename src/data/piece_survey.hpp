// What one pass over a list of pieces tells.
#pragma once

#include <cstdint>
#include <span>

#include "data/piece_lowering.hpp"

namespace tranship {

/// What one look at all pieces finds, without a branch for each of them.
struct PieceSurvey {
  bool inside = true;      ///< all pieces lie inside their blocks, and no number is negative
  bool ascending = true;   ///< in the target, each begins behind the end of the one before
  bool equal = true;       ///< all lengths are the same
  std::int64_t bytes = 0;  ///< of all pieces
  /// Largest power of two that divides a side's offsets and the lengths; 0: all of them are 0.
  std::int64_t source_grain = 0;
  std::int64_t target_grain = 0;
  std::int64_t length_grain = 0;  ///< the same of the lengths alone
  /// At least the longest length, and less than twice it; the length of all, if they are equal.
  std::int64_t length_bound = 0;
};

/// Looks at pieces of two blocks of `source_bytes` and `target_bytes` bytes. The three lists have
/// the same length.
PieceSurvey survey(const PieceLists& pieces, std::int64_t source_bytes, std::int64_t target_bytes);

/// Largest number of units for each place with which all_differ() is quicker than a bit for each.
constexpr std::int64_t marks_most = 32;

/// Whether all `places`, which are at least 0 and at most `most`, differ, counted in units of
/// 1 << shift. Takes a byte for each unit.
bool all_differ(std::span<const std::int64_t> places, std::int64_t most, int shift);

/// Whether most neighbours of the list follow each other on both sides, by a look at some of them.
bool mostly_follow(const PieceLists& pieces);

}  // namespace tranship
