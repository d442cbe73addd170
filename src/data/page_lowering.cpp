#include "data/page_lowering.hpp"

#include <algorithm>

namespace tranship {
namespace {

/// Where the pages of all fields lie; null if the fields differ in that.
const Levels* levels_of(const Mapping& mapping) {
  const auto& fields = mapping.fields();
  if (mapping.rank() == 0 || fields.empty()) return nullptr;
  const Levels& first = fields[0].dimension[0];
  const bool alike = std::all_of(fields.begin(), fields.end(), [&](const Placement& field) {
    return field.dimension[0] == first;
  });
  return alike ? &first : nullptr;
}

}  // namespace

bool lower_pages(const Corner& source, const Corner& target, const Point& extents,
                 const std::vector<int>& field_of_target, const PageLists& pages,
                 std::int64_t count_max, IndexedCopy& copy) {
  const Levels* from = levels_of(*source.mapping);
  const Levels* to = levels_of(*target.mapping);
  if (from == nullptr || to == nullptr) return false;
  std::vector<LoopNest> nests;
  lower(source, target, extents, field_of_target, nests);
  for (const LoopNest& nest : nests) {
    if (nest.rank == LoopNest::loops_max) return false;
  }
  const std::int64_t source_zero = from->offset(source.lower[0]);
  const std::int64_t target_zero = to->offset(target.lower[0]);
  const auto move = [&](std::size_t k) {
    return IndexedEntry{from->offset(source.lower[0] + pages.source[k]) - source_zero,
                        to->offset(target.lower[0] + pages.target[k]) - target_zero, 1};
  };
  copy.add_group(nests, from->level[0].stride, to->level[0].stride, pages.source.size(), count_max,
                 move);
  return true;
}

std::optional<RunList> page_runs(const Corner& source, const Corner& target, const Point& extents,
                                 const std::vector<int>& field_of_target, const PageLists& pages) {
  const Levels* from = levels_of(*source.mapping);
  const Levels* to = levels_of(*target.mapping);
  if (from == nullptr || to == nullptr || from->count != 1 || to->count != 1) return {};
  std::vector<LoopNest> nests;
  lower(source, target, extents, field_of_target, nests);
  if (nests.size() != 1 || nests[0].rank != 0) return {};
  return RunList{{pages.source, 0, from->level[0].stride, nests[0].source_offset},
                 {pages.target, 0, to->level[0].stride, nests[0].target_offset},
                 nests[0].element_bytes * std::ssize(pages.source)};
}

}  // namespace tranship
