// Copies of pieces: byte ranges of two blocks of memory.
#pragma once

#include <optional>

#include "data/piece_lowering.hpp"
#include "data/piece_survey.hpp"
#include "data/run_list.hpp"
#include "engine/copy_lists.hpp"

namespace tranship {

/// Checks that two arrays can be the ends of a copy of pieces.
/// @error as Engine::copy_pieces()
Status check_pieces(const Array& source, const Array& target, const PieceLists& pieces);

/// Plans a copy of pieces, as one copy of an indexed nest along one path, whose ends are the bytes
/// of the two arrays; the list goes into `copy`, which is empty.
/// @error as Engine::copy_pieces()
Result<ListPlan> plan_pieces(CopyRunner& runner, const Array& source, const Array& target,
                             const PieceLists& pieces, const CopyOptions& options,
                             IndexedCopy& copy);

/// Returns pieces inside two blocks of bytes in their short form; nothing if a table cannot hold
/// their offsets, or if short ones follow each other: those are joined.
std::optional<RunList> run_list_of(const CopyPair& ends, const PieceLists& pieces,
                                   const PieceSurvey& seen);

}  // namespace tranship
