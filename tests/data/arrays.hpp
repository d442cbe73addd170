// Arrays of random layouts, and slow, simple walks over them, with which the laws of src/data are
// checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/random.hpp"
#include "data/loop_nest.hpp"
#include "data/mapping.hpp"

namespace tranship::test {

/// Returns a layout of `space` with up to two blocks in each dimension, its terms in any order.
Layout random_layout(Random& random, const IndexSpace& space);

/// Returns one to four dimensions of up to 13 indices.
IndexSpace random_space(Random& random);

/// Returns one to four fields of 1 to 16 bytes.
FieldSpace random_fields(Random& random);

struct Pair {
  std::shared_ptr<const Mapping> source;
  std::shared_ptr<const Mapping> target;
};

/// Returns two mappings of the same index space and fields with different layouts.
Pair random_pair(Random& random);

/// Returns any box of the mapping; it may be empty.
View random_view(Random& random, const std::shared_ptr<const Mapping>& mapping);

/// Returns the byte offset of one field at one point, term by term.
std::int64_t offset_of(const Mapping& mapping, std::size_t field, const Point& point);

/// Moves the bytes of a nest, one element at a time.
void run_nest(const LoopNest& nest, const std::byte* source, std::byte* target);

/// Calls `body(point)` for every point of a box that begins at 0.
template <typename Body>
void for_each_point(const Point& extents, int rank, Body body) {
  Point point{};
  for (int k = 0; k < rank; ++k) {
    if (extents[static_cast<std::size_t>(k)] == 0) return;
  }
  while (true) {
    body(point);
    std::size_t k = 0;
    for (; k < static_cast<std::size_t>(rank); ++k) {
      if (++point[k] < extents[k]) break;
      point[k] = 0;
    }
    if (k == static_cast<std::size_t>(rank)) return;
  }
}

/// Calls `visit(offset)` for every byte of a view.
template <typename Visit>
void for_each_byte(const View& view, Visit visit) {
  for_each_point(view.extents, view.mapping->rank(), [&](Point point) {
    for (std::size_t k = 0; k < point.size(); ++k) point[k] += view.lower[k];
    for (std::size_t f = 0; f < view.mapping->fields().size(); ++f) {
      for (std::int64_t i = 0; i < view.mapping->fields()[f].field.bytes; ++i) {
        visit(offset_of(*view.mapping, f, point) + i);
      }
    }
  });
}

}  // namespace tranship::test
