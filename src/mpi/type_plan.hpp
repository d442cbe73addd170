// The plan of each MPI type: how its elements are packed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "mpi/choices.hpp"
#include "mpi/handles.hpp"
#include "mpi/type_reader.hpp"
#include "tranship/packer.hpp"
#include "tranship/types.hpp"

namespace tranship::mpi {

/// A number of items of one MPI type, and the packer for them. Immutable; threads: all.
struct Items {
  std::int64_t count = 0;
  ReadType one;  ///< the type of one item
  /// Items are packed in groups: all items are one group, or, for types with long lists, each item
  /// is one, since a list for all of them would be longer.
  std::int64_t groups = 1;
  std::int64_t group_extent = 0;     ///< bytes from one group to the next
  Datatype group;                    ///< the type of a group
  Packer packer;                     ///< the packer of a group
  std::int64_t lowest = 0;           ///< the lowest byte that an element occupies
  std::int64_t highest = 0;          ///< one past the highest
  bool contiguous = false;           ///< without gaps, in the order in which they are packed
  std::array<bool, tasks> faster{};  ///< by Task: whether to pack here rather than by MPI

  std::int64_t bytes() const { return groups * packer.bytes(); }
  /// Returns whether elements may be unpacked: no two share a byte.
  bool disjoint() const;
};

/// Returns so many items of a type. packer: Of one item, if there is one; it is compiled once.
/// @throws OutOfRange for items beyond 2^61 bytes
std::shared_ptr<const Items> make_items(const ReadType& one, std::int64_t count,
                                        const Packer* packer = nullptr);

/// How items of one MPI type are packed. Threads: all.
class TypePlan {
 public:
  explicit TypePlan(ReadType type) : type_(std::move(type)), packer_(type_.type) {}

  /// Returns the items for a call with this count, which are kept for the next call.
  /// @throws OutOfRange for items beyond 2^61 bytes
  std::shared_ptr<const Items> items(std::int64_t count);

 private:
  ReadType type_;
  Packer packer_;  ///< of one item
  std::mutex mutex_;
  std::vector<std::shared_ptr<const Items>> known_;  ///< of the latest counts
  std::size_t next_ = 0;                             ///< The element that the next count replaces.
};

/// Marks a type as committed, or as a duplicate of one; its plan is made when it is first used. The
/// plan is an attribute of the type: it goes with the type, and duplicates share it.
void keep_plan(MPI_Datatype type);

/// Returns whether a type was marked.
bool is_kept(MPI_Datatype type);

/// Returns the items of a committed type, with their packer. Null for types that MPI alone handles:
/// basic ones, those that are not committed, and those that cannot be read; also for too many
/// bytes.
std::shared_ptr<const Items> items_of(MPI_Datatype type, std::int64_t count);

/// Leaves all types to MPI, until they are committed again: before MPI, or a session, ends.
void forget_plans();

}  // namespace tranship::mpi
