#include "engine/region.hpp"

#include <algorithm>

#include "base/at.hpp"
#include "engine/checks.hpp"

namespace tranship {

Status restrict_to(Array& array, std::span<const NamedRange> region, const View& names) {
  const IndexSpace& space = names.mapping->space();
  for (const auto& [name, lower, upper] : region) {
    const auto found = std::ranges::find(space, name, &Dimension::name);
    if (found == space.end()) {
      return invalid("the region names dimension \"" + name + "\"",
                     "the array's dimensions are " + names_of(space));
    }
    const auto k = static_cast<std::size_t>(found - space.begin());
    if (k >= at(array.view.mapping->rank())) continue;  // the copy says that the ranks differ
    if (lower < 0 || upper < lower || upper > array.view.extents[k]) {
      return Error{ErrorCode::out_of_range, "the region [" + std::to_string(lower) + ", " +
                                                std::to_string(upper) + ") of \"" + name +
                                                "\" lies outside [0, " +
                                                std::to_string(array.view.extents[k]) + ")"};
    }
    array.view.lower[k] += lower;
    array.view.extents[k] = upper - lower;
  }
  return {};
}

Status restrict_to(CopyPair& ends, std::span<const NamedRange> region, WholeEnds whole) {
  if (region.empty()) return {};
  const View names = ends.source.named ? ends.source.view : ends.target.view;
  const View target_names = ends.target.named ? ends.target.view : names;
  Status status = whole.source ? restrict_to(ends.source, region, names) : Status{};
  if (!status || !whole.target) return status;
  return restrict_to(ends.target, region, target_names);
}

}  // namespace tranship
