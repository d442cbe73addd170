// The objects that a get reads, and the part of its box that comes from each.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/heap.hpp"
#include "data/loop_nest.hpp"
#include "staging/model/box.hpp"

namespace tranship::staging {

/// The CRC-32C of an object's dense bytes, if its writer has computed one.
struct Checksum {
  std::uint32_t known = 0;  ///< 1 if there is one.
  std::uint32_t crc = 0;
  bool operator==(const Checksum&) const = default;
};

/// Range::segment of an object that lies in its producer's memory (protocol::QueryOffer says
/// where).
constexpr int offered_segment = -2;

/// Where an object lies that its producer offers: an array that the producer's engine exports.
struct OfferedMemory {
  std::string contact;   ///< Of the producer's engine.
  std::string name;      ///< Of the array there.
  std::string producer;  ///< The client's name.
};

/// An object that meets the box of a get.
struct StoredObject {
  int primary = 0;           ///< The server that holds it.
  std::uint64_t object = 0;  ///< Its number there.
  Box box;
  /// The order of its commit. Of two objects that overlap, the one with the higher order is seen.
  /// 0: unknown here; the primary knows it.
  std::uint64_t order = 0;
  /// Its place in the primary's memory, once the order is known: dense, the last dimension fastest.
  /// Without a segment (-1) while it lies on disk; `offered_segment` if its producer offers it.
  Range range;
  std::uint64_t lease = 0;  ///< The lease that keeps it, as a client knows it.
  Checksum checksum{};

  bool is_offered() const { return range.segment == offered_segment; }
};

/// The objects that a server names for a get.
struct FoundObjects {
  std::int64_t version = 0;
  std::string type;
  std::int64_t element_bytes = 0;
  std::uint64_t lease = 0;            ///< Keeps those that lie on that server, until its release.
  std::vector<StoredObject> objects;  ///< Those of known order, the newest first.
  /// A step of which the server withholds something that could change the answer; 0: none. The
  /// client asks whether the step is whole (StepClient::settle).
  std::uint64_t step = 0;
};

/// A part of a get that comes from one object.
struct Part {
  std::size_t object = 0;  ///< Index of the object in its list.
  Box box;
};

/// Sorts objects by their order, the newest first. Each object has an order of its own.
void sort_newest_first(std::vector<StoredObject>& objects);

/// Finds the part of `box` that is visible of each object: disjoint parts, which together cover the
/// box. Returns false, and the first part that is `missing`, if the objects do not cover it.
bool find_parts(const Box& box, std::span<const StoredObject> newest_first,
                std::vector<Part>& parts, Box& missing);

/// Returns the loop nest that copies the elements of `part`, which lies in both boxes, between
/// dense arrays of the two.
LoopNest nest_of(const Box& part, const Box& source, const Box& target, std::int64_t element_bytes);

}  // namespace tranship::staging
