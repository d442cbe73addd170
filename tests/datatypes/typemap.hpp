// Types as MPI defines them: the list of elements and their places. Slow and obvious.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "datatypes/datatype.hpp"

namespace tranship {

/// A type, built by the library and by the definition at the same time.
struct TypeAndMap {
  Datatype type;
  struct Entry {
    std::string element;
    std::int64_t bytes = 0;
    std::int64_t offset = 0;
  };
  std::vector<Entry> map;
  std::int64_t lower = 0;
  std::int64_t upper = 0;

  std::int64_t extent() const { return upper - lower; }

  /// Appends the elements of `part` at `offset`.
  void append(const TypeAndMap& part, std::int64_t offset) {
    for (const Entry& one : part.map) map.push_back({one.element, one.bytes, one.offset + offset});
  }

  /// Returns the memory offset of every byte, in packed order.
  std::vector<std::int64_t> bytes() const {
    std::vector<std::int64_t> all;
    for (const Entry& one : map) {
      for (std::int64_t k = 0; k < one.bytes; ++k) all.push_back(one.offset + k);
    }
    return all;
  }

  std::vector<std::string> elements() const {
    std::vector<std::string> all;
    for (const Entry& one : map) all.push_back(one.element);
    return all;
  }
};

inline TypeAndMap element_map(const std::string& element) {
  const Datatype type = Datatype::element(element).value();
  return {type, {{element, type.bytes(), 0}}, 0, type.bytes()};
}

/// Returns blocks of a base: `lengths[k]` items from `places[k]` bytes on. The caller sets the
/// type.
inline TypeAndMap block_map(const std::vector<std::int64_t>& lengths,
                            const std::vector<std::int64_t>& places, const TypeAndMap& base) {
  TypeAndMap made;
  bool first = true;
  for (std::size_t k = 0; k < places.size(); ++k) {
    for (std::int64_t j = 0; j < lengths[k]; ++j) {
      const std::int64_t place = places[k] + j * base.extent();
      made.append(base, place);
      made.lower = first ? place + base.lower : std::min(made.lower, place + base.lower);
      made.upper = first ? place + base.upper : std::max(made.upper, place + base.upper);
      first = false;
    }
  }
  return made;
}

inline TypeAndMap vector_map(std::int64_t count, std::int64_t length, std::int64_t stride,
                             const TypeAndMap& base) {
  std::vector<std::int64_t> places;
  for (std::int64_t k = 0; k < count; ++k) places.push_back(k * stride * base.extent());
  TypeAndMap made = block_map(std::vector<std::int64_t>(places.size(), length), places, base);
  made.type = Datatype::vector(count, length, stride, base.type).value();
  return made;
}

inline TypeAndMap hvector_map(std::int64_t count, std::int64_t length, std::int64_t stride,
                              const TypeAndMap& base) {
  std::vector<std::int64_t> places;
  for (std::int64_t k = 0; k < count; ++k) places.push_back(k * stride);
  TypeAndMap made = block_map(std::vector<std::int64_t>(places.size(), length), places, base);
  made.type = Datatype::hvector(count, length, stride, base.type).value();
  return made;
}

inline TypeAndMap hindexed_map(const std::vector<std::int64_t>& lengths,
                               const std::vector<std::int64_t>& places, const TypeAndMap& base) {
  TypeAndMap made = block_map(lengths, places, base);
  made.type = Datatype::hindexed(lengths, places, base.type).value();
  return made;
}

inline TypeAndMap hindexed_block_map(std::int64_t length, const std::vector<std::int64_t>& places,
                                     const TypeAndMap& base) {
  TypeAndMap made = block_map(std::vector<std::int64_t>(places.size(), length), places, base);
  made.type = Datatype::hindexed_block(length, places, base.type).value();
  return made;
}

/// Returns a structure of single items, without the padding at its end.
inline TypeAndMap struct_map(const std::vector<std::int64_t>& places,
                             const std::vector<TypeAndMap>& bases) {
  TypeAndMap made;
  std::vector<Datatype> types;
  for (std::size_t k = 0; k < bases.size(); ++k) {
    made.append(bases[k], places[k]);
    const std::int64_t lower = places[k] + bases[k].lower;
    const std::int64_t upper = places[k] + bases[k].upper;
    made.lower = k == 0 ? lower : std::min(made.lower, lower);
    made.upper = k == 0 ? upper : std::max(made.upper, upper);
    types.push_back(bases[k].type);
  }
  const std::vector<std::int64_t> ones(bases.size(), 1);
  made.type = Datatype::structure(ones, places, types).value();
  return made;
}

inline TypeAndMap resized_map(std::int64_t lower, std::int64_t extent, TypeAndMap base) {
  base.type = Datatype::resized(lower, extent, base.type).value();
  base.lower = lower;
  base.upper = lower + extent;
  return base;
}

}  // namespace tranship
