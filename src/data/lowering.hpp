// Lowering: (source box, target box) becomes a few coalesced loop nests.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "data/loop_nest.hpp"
#include "data/mapping.hpp"

namespace tranship {

/// One side of a lowering: where the box begins in the mapping's index space.
struct Corner {
  const Mapping* mapping = nullptr;
  Point lower{};
};

/// Appends to `nests` what copies the box of `extents` from `source` to `target`: dimension k of
/// one is dimension k of the other, field k is field `field_of_target[k]` of the source (empty:
/// the same number). Offsets count from each mapping's base. Allocates only when `nests` grows.
void lower(const Corner& source, const Corner& target, const Point& extents,
           const std::vector<int>& field_of_target, std::vector<LoopNest>& nests);

/// Sorts the loops by target stride, drops those of extent 1 and joins those that run on: the
/// fewest and longest runs that say the same.
void coalesce(LoopNest& nest);

/// Joins nests of equal shape: neighbours in memory become longer elements, and equally spaced
/// ones a loop. `first` is the first nest to look at.
void merge(std::vector<LoopNest>& nests, std::size_t first);

/// Which source field each target field comes from: by name, or the only one on both sides.
/// @error invalid_argument if names or types do not match
Result<std::vector<int>> match_fields(const Mapping& source, const Mapping& target);

/// Whether the bytes of the two boxes intersect, given that both mappings count from bases that
/// are `distance` bytes apart (target base minus source base). Exact, except for boxes of more
/// than some million separate runs, which count as intersecting if their ranges do.
bool overlaps(const View& source, const View& target, std::int64_t distance);

}  // namespace tranship
