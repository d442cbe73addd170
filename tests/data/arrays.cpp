#include "data/arrays.hpp"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace tranship::test {
namespace {

void run_loops(const LoopNest& nest, const std::byte* source, std::byte* target, int rank) {
  if (rank == 0) {
    std::memcpy(target, source, static_cast<std::size_t>(nest.element_bytes));
    return;
  }
  const Loop& outer = nest.loops[static_cast<std::size_t>(rank - 1)];
  for (std::int64_t i = 0; i < outer.extent; ++i) {
    run_loops(nest, source + i * outer.source_stride, target + i * outer.target_stride, rank - 1);
  }
}

}  // namespace

Layout random_layout(Random& random, const IndexSpace& space) {
  std::vector<Term> terms{Term{}};
  for (const Dimension& dimension : space) {
    const auto blocks = random.below(3);
    for (int k = 0; k < blocks; ++k) terms.push_back({dimension.name, random.between(1, 5)});
    terms.push_back({dimension.name, 0});
  }
  for (std::size_t k = terms.size(); k > 1; --k) {
    std::swap(terms[k - 1],
              terms[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(k)))]);
  }
  return Layout(terms);
}

IndexSpace random_space(Random& random) {
  IndexSpace space;
  const auto rank = random.between(1, 4);
  for (int k = 0; k < rank; ++k) {
    space.push_back({std::string(1, static_cast<char>('p' + k)), random.between(1, 13)});
  }
  return space;
}

FieldSpace random_fields(Random& random) {
  FieldSpace fields;
  const std::int64_t sizes[] = {1, 2, 4, 8, 16};
  const auto count = random.between(1, 4);
  for (int f = 0; f < count; ++f) {
    fields.push_back({"f" + std::to_string(f), "u1", sizes[random.below(5)]});
  }
  return fields;
}

Pair random_pair(Random& random) {
  const IndexSpace space = random_space(random);
  const FieldSpace fields = random_fields(random);
  return {Mapping::make(space, fields, random_layout(random, space)).value(),
          Mapping::make(space, fields, random_layout(random, space)).value()};
}

View random_view(Random& random, const std::shared_ptr<const Mapping>& mapping) {
  View view = View::whole(mapping);
  for (std::size_t k = 0; k < static_cast<std::size_t>(mapping->rank()); ++k) {
    const std::int64_t extent = mapping->space()[k].extent;
    view.extents[k] = random.between(0, extent);
    view.lower[k] = random.between(0, extent - view.extents[k]);
  }
  return view;
}

std::int64_t offset_of(const Mapping& mapping, std::size_t field, const Point& point) {
  const Placement& placement = mapping.fields()[field];
  std::int64_t offset = placement.offset;
  for (std::size_t k = 0; k < static_cast<std::size_t>(mapping.rank()); ++k) {
    offset += placement.dimension[k].offset(point[k]);
  }
  return offset;
}

void run_nest(const LoopNest& nest, const std::byte* source, std::byte* target) {
  run_loops(nest, source + nest.source_offset, target + nest.target_offset, nest.rank);
}

}  // namespace tranship::test
