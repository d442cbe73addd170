#include "staging/model/parts.hpp"

#include <algorithm>
#include <tuple>

#include "data/lowering.hpp"

namespace tranship::staging {
namespace {

/// Returns the bytes from the start of a dense array of `box` to the element at `lower`.
std::int64_t offset_in(const Box& box, const Point& lower, std::int64_t element_bytes) {
  std::int64_t offset = 0;
  for (std::size_t k = 0; k < static_cast<std::size_t>(box.rank); ++k) {
    offset = offset * (box.upper[k] - box.lower[k]) + lower[k] - box.lower[k];
  }
  return offset * element_bytes;
}

}  // namespace

void sort_newest_first(std::vector<StoredObject>& objects) {
  std::sort(objects.begin(), objects.end(), [](const StoredObject& a, const StoredObject& b) {
    return std::tie(a.order, a.primary, a.object) > std::tie(b.order, b.primary, b.object);
  });
}

bool find_parts(const Box& box, std::span<const StoredObject> newest_first,
                std::vector<Part>& parts, Box& missing) {
  std::vector<Box> open{box};
  std::vector<Box> left;
  for (std::size_t k = 0; k < newest_first.size() && !open.empty(); ++k) {
    left.clear();
    for (const Box& one : open) {
      if (const auto part = intersection(one, newest_first[k].box)) parts.push_back({k, *part});
      subtract(one, newest_first[k].box, left);
    }
    open.swap(left);
  }
  if (open.empty()) return true;
  missing = open.front();
  return false;
}

LoopNest nest_of(const Box& part, const Box& source, const Box& target,
                 std::int64_t element_bytes) {
  LoopNest nest;
  nest.element_bytes = element_bytes;
  nest.source_offset = offset_in(source, part.lower, element_bytes);
  nest.target_offset = offset_in(target, part.lower, element_bytes);
  std::int64_t source_stride = element_bytes;
  std::int64_t target_stride = element_bytes;
  for (int k = part.rank - 1; k >= 0; --k) {
    nest.loops[static_cast<std::size_t>(nest.rank++)] = {part.extent(k), source_stride,
                                                         target_stride};
    source_stride *= source.extent(k);
    target_stride *= target.extent(k);
  }
  coalesce(nest);
  return nest;
}

}  // namespace tranship::staging
