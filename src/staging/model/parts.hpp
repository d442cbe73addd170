// What a get sees: objects of one version, and which part of the box comes from each.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/heap.hpp"
#include "data/loop_nest.hpp"
#include "staging/model/box.hpp"

namespace tranship::staging {

/// The CRC-32C of an object's dense bytes, if its writer has made one.
struct Checksum {
  std::uint32_t known = 0;  ///< 1 if there is one
  std::uint32_t crc = 0;
  bool operator==(const Checksum&) const = default;
};

/// An object, as a get sees it.
struct Seen {
  int home = 0;              ///< the server that holds it
  std::uint64_t object = 0;  ///< its number there
  Box box;
  std::uint64_t order = 0;  ///< of its commit: of two that overlap, the higher is seen; 0: only its
                            ///< home knows
  Range range;              ///< of its home's memory, once the order is known: dense, the last
                            ///< dimension fastest; of no segment (-1) while it lies on disk
  std::uint64_t lease = 0;  ///< that keeps it there, as a client knows
  Checksum checksum{};
};

/// The objects that a server names for a get.
struct Found {
  std::int64_t version = 0;
  std::string type;
  std::int64_t element_bytes = 0;
  std::uint64_t lease = 0;    ///< keeps those that lie on that server until its release
  std::vector<Seen> objects;  ///< of known order, the newest first
};

/// A part of a get: it lies in one object.
struct Part {
  std::size_t object = 0;  ///< by its place in the list
  Box box;
};

/// Sorts the newest to the front: an order of its own for each object.
void sort_newest_first(std::vector<Seen>& objects);

/// Cuts `box` into what is seen of each object: disjoint parts, together the box. Returns false,
/// and the first of what is `missing`, if the objects do not cover it.
bool cut(const Box& box, std::span<const Seen> newest_first, std::vector<Part>& parts,
         Box& missing);

/// Between dense arrays of two boxes, the elements of `part`, which lies in both.
LoopNest nest_of(const Box& part, const Box& source, const Box& target, std::int64_t element_bytes);

}  // namespace tranship::staging
