// Lowering: converts a copy between two boxes to a few coalesced loop nests.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "data/loop_nest.hpp"
#include "data/mapping.hpp"
#include "data/number_type.hpp"

namespace tranship {

/// One side of a copy: a mapping, and the first index of the box in each of its dimensions.
struct Corner {
  const Mapping* mapping = nullptr;
  Point lower{};
};

/// What becomes of the numbers of fields whose types differ.
enum class Numbers {
  as_they_are,  ///< the types are not looked at
  converted,    ///< to the target's types
};

/// Appends to `nests` the loop nests that copy a box of `extents` from `source` to `target`.
/// Dimension k of the source is dimension k of the target. Field k of the target is field
/// `field_of_target[k]` of the source, or field k if the list is empty. Offsets count from the base
/// of each mapping. Allocates only when `nests` grows. Types that `numbers` lets differ must have
/// passed match_fields().
void lower(const Corner& source, const Corner& target, const Point& extents,
           const std::vector<int>& field_of_target, std::vector<LoopNest>& nests,
           Numbers numbers = Numbers::as_they_are);

/// Rewrites a nest with as few loops and as long runs as possible: sorts the loops by target
/// stride, removes those of extent 1 and joins those that continue each other. The bytes that it
/// moves, and the numbers that it converts, stay the same.
void coalesce(LoopNest& nest);

/// Joins nests of equal shape, from number `first` on: neighbours in memory become longer elements,
/// and equally spaced nests become a loop.
void merge(std::vector<LoopNest>& nests, std::size_t first);

/// Returns the number of the source field of each target field. Fields are matched by name; a
/// single field matches the other side's single field whatever its name. Types may differ as far as
/// `casting` allows.
/// @error invalid_argument if names or types do not match
Result<std::vector<int>> match_fields(const Mapping& source, const Mapping& target,
                                      Casting casting = Casting::none);

/// Returns whether a copy between matched fields converts numbers.
/// field_of_target: As match_fields() returns it, or empty.
bool casts_fields(const Mapping& source, const Mapping& target,
                  const std::vector<int>& field_of_target);

}  // namespace tranship
