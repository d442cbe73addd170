// Checks of lists of pieces.
#pragma once

#include <cstdint>
#include <optional>

#include "base/error.hpp"
#include "data/piece_survey.hpp"

namespace tranship {

/// The two blocks of memory that pieces lie in.
struct PieceBlocks {
  std::int64_t source_bytes = 0;
  std::int64_t target_bytes = 0;
  /// Bytes from the source's block to the target's, if both lie in one memory.
  std::optional<std::int64_t> distance;
};

/// Checks that the lists are as long as each other, that all pieces lie inside the blocks, and that
/// no byte is written twice, or both read and written. Returns what it has seen of them.
/// @error invalid_argument; out_of_range. Both name a piece by its number in the lists.
Result<PieceSurvey> check_pieces(const PieceLists& pieces, const PieceBlocks& blocks);

}  // namespace tranship
