// An exhaustive planner to compare with: it tries every acyclic path with at most one self-loop,
// every order of every buffer, and every box of divisor extents as the tile, and predicts the time
// of each. Written from Isometry 4.2 and the comments of plan.hpp and profile.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace tranship::oracle {

/// One component of an order: a dimension, a block of one, or the fields.
struct Part {
  int dimension = -1;       ///< -1: the fields
  std::int64_t block = 0;   ///< indices in the block; 0: all that the blocks leave
  bool gap_before = false;  ///< the part does not begin where the one before ends (strided views)
  bool operator==(const Part&) const = default;
};

/// The order of an array or a buffer, fastest part first.
struct Sequence {
  std::vector<Part> parts;
  bool targets_fields = false;  ///< the fields follow each other as in the target's array
  bool operator==(const Sequence&) const = default;
};

/// A transfer on a machine, with its ends described in the oracle's types.
struct Case {
  Profile profile;
  PlanQuery query;
  Sequence source;
  Sequence target;
  Point source_array{};  ///< extents of the whole array; the region may be smaller
  Point target_array{};
  int rank = 0;
  int fields = 1;
  std::int64_t point_bytes = 0;
  bool same_fields = true;

  std::int64_t field_bytes() const { return point_bytes / fields; }
};

/// A path of the transfer, with the orders of its buffers and its tile.
struct Way {
  std::vector<int> channels;
  std::vector<Sequence> buffers;  ///< one buffer fewer than channels
  Point tile{};
  double seconds = 0;
};

/// The orders that buffers may have.
enum class Orders {
  all,
  ends,  ///< the source's order up to one hop, the target's after it
};

/// Returns the fastest path of less than `seconds_max`, or nothing if there is none.
std::optional<Way> fastest(const Case& one, double seconds_max, Orders orders);

/// Returns the predicted time of one path. slots: Slots of each buffer; with one, no hop can work
/// while its neighbour does.
double seconds_of(const Case& one, const Way& way, int slots);

/// Returns the bytes of a buffer for such a tile, with the padding of blocks (which are at most as
/// large as the tile).
std::int64_t slot_bytes(const Case& one, const Sequence& order, const Point& tile);

/// Returns whether blocks and tile divide one another in each dimension, so that PREFIX is exact.
bool divides(const Case& one, const Point& tile);

/// Returns the case and the path as text, for failure messages.
std::string describe(const Case& one);
std::string describe(const Case& one, const Way& way);

}  // namespace tranship::oracle
