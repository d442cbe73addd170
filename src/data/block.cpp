#include "data/block.hpp"

#include <algorithm>
#include <vector>

namespace tranship {
namespace {

/// Adds the digits of the indices that the view has in a dimension, as loops of an extent and a
/// stride, and its first index to `offset`. Returns false if the indices are no whole blocks.
bool add_digits(const Levels& levels, std::int64_t lower, std::int64_t extent,
                std::vector<Level>& digits, std::int64_t& offset) {
  offset += levels.offset(lower);
  std::int64_t left = extent;
  std::int64_t begin = lower;
  for (std::size_t k = 0; k + 1 < static_cast<std::size_t>(levels.count); ++k) {
    const Level& level = levels.level[k];
    if (begin % level.radix != 0 || left % level.radix != 0) return false;
    digits.push_back(level);
    begin /= level.radix;
    left /= level.radix;
  }
  digits.push_back({left, levels.level[static_cast<std::size_t>(levels.count - 1)].stride});
  return true;
}

/// Whether the digits, the smallest stride first, continue a run of `run` bytes without a gap.
bool continues(std::vector<Level>& digits, std::int64_t run) {
  std::sort(digits.begin(), digits.end(),
            [](const Level& a, const Level& b) { return a.stride < b.stride; });
  for (const Level& digit : digits) {
    if (digit.radix == 1) continue;
    if (digit.stride != run) return false;
    run *= digit.radix;
  }
  return true;
}

/// Puts the fields in the order of their offsets. Returns whether each point is one run.
bool fields_touch(std::vector<const Placement*>& fields) {
  std::sort(fields.begin(), fields.end(),
            [](const Placement* a, const Placement* b) { return a->offset < b->offset; });
  for (std::size_t k = 1; k < fields.size(); ++k) {
    const bool follows = fields[k]->offset == fields[k - 1]->offset + fields[k - 1]->field.bytes;
    if (!follows || fields[k]->dimension != fields[0]->dimension) return false;
  }
  return true;
}

}  // namespace

std::optional<std::int64_t> block_of(const View& view) {
  const Mapping& mapping = *view.mapping;
  if (view.bytes() == 0) return mapping.begin_bytes();
  std::vector<const Placement*> fields;
  for (const Placement& field : mapping.fields()) fields.push_back(&field);
  if (!fields_touch(fields)) return std::nullopt;
  std::int64_t offset = fields[0]->offset;
  std::vector<Level> digits;
  for (std::size_t k = 0; k < static_cast<std::size_t>(mapping.rank()); ++k) {
    const Levels& levels = fields[0]->dimension[k];
    if (!add_digits(levels, view.lower[k], view.extents[k], digits, offset)) return std::nullopt;
  }
  return continues(digits, mapping.point_bytes()) ? std::optional(offset) : std::nullopt;
}

}  // namespace tranship
