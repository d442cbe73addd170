// Lists of runs as loops: the same loops for the same runs, whatever type they come from.
#pragma once

#include <optional>
#include <span>

#include "datatypes/type_tree.hpp"

namespace tranship {

/// Returns the tree of loops and sequences that has these runs, in this order. No two neighbours
/// touch. A function of the runs alone: all of them as one nest of loops if they are one; else runs
/// and groups of up to 8 parts that are repeated evenly become loops, several times over. Nothing
/// if no loop was found: the runs are a list.
std::optional<TypeTree> compress(std::span<const TypeRun> runs);

}  // namespace tranship
