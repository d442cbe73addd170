// Regions: ranges of named dimensions, to which the arrays of a copy are restricted.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/copy_options.hpp"

namespace tranship {

/// The indices from `lower` to before `upper` of the dimension of this name.
struct NamedRange {
  std::string name;
  std::int64_t lower = 0;
  std::int64_t upper = 0;
};

/// Restricts an array to a region. names: View whose dimension k has the name of the array's
/// dimension k.
/// @error invalid_argument for a name that `names` does not have; out_of_range
Status restrict_to(Array& array, std::span<const NamedRange> region, const View& names);

/// The ends of a copy that a region is yet to be applied to.
struct WholeEnds {
  bool source = true;
  bool target = true;
};

/// Restricts both arrays of a copy to the region, where they are whole. The dimensions of an array
/// without names of its own match the other array's by their position, and so does the region.
/// @error as the other
Status restrict_to(CopyPair& ends, std::span<const NamedRange> region, WholeEnds whole = {});

}  // namespace tranship
