// Types that are drawn at random, with what they are by definition.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/random.hpp"
#include "typemap.hpp"

namespace tranship {

inline TypeAndMap random_type(Random& random, int depth, std::int64_t elements_max) {
  static const std::vector<std::string> elements{"u1", "i2", "f4", "f8", "c16", "V3"};
  if (depth == 0) return element_map(elements[static_cast<std::size_t>(random.below(6))]);
  const TypeAndMap base = random_type(random, depth - 1, elements_max);
  const auto base_count = static_cast<std::int64_t>(base.map.size());
  const std::int64_t room =
      std::max<std::int64_t>(elements_max / std::max<std::int64_t>(base_count, 1), 1);
  const std::int64_t count = random.between(0, std::min<std::int64_t>(room, 6));
  const std::int64_t length =
      random.between(1, std::max<std::int64_t>(
                            std::min<std::int64_t>(room / std::max<std::int64_t>(count, 1), 3), 1));
  std::vector<std::int64_t> places(static_cast<std::size_t>(count));
  std::vector<std::int64_t> lengths(places.size());
  std::int64_t next = random.between(-20, 20);
  for (std::size_t k = 0; k < places.size(); ++k) {
    places[k] = next;
    lengths[k] = random.between(0, length);
    next += lengths[k] * std::abs(base.extent()) + (random.chance(0.4) ? random.below(30) : 0);
  }
  if (random.chance(0.5)) {
    for (std::size_t k = places.size(); k-- > 1;) {
      std::swap(places[k],
                places[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(k) + 1))]);
    }
  }
  switch (random.below(6)) {
    case 0: return vector_map(count, length, random.between(-4, 8), base);
    case 1: return hvector_map(count, length, random.between(-64, 128), base);
    case 2: return hindexed_map(lengths, places, base);
    case 3: return hindexed_block_map(length, places, base);
    case 4: {
      std::vector<TypeAndMap> bases;
      for (std::size_t k = 0; k < places.size(); ++k) {
        bases.push_back(random.chance(0.5) ? base : random_type(random, 0, 1));
      }
      TypeAndMap made = struct_map(places, bases);
      // The padding at the end follows the alignment, which the list of elements does not have.
      made.upper = made.lower + made.type.extent();
      return made;
    }
    default: return resized_map(random.between(-8, 8), base.extent() + random.between(-3, 9), base);
  }
}

}  // namespace tranship
