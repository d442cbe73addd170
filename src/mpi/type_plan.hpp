// What is kept for each MPI type: how its elements are packed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "mpi/handles.hpp"
#include "tranship/packer.hpp"
#include "tranship/types.hpp"

namespace tranship::mpi {

/// How items of one MPI type are packed. Threads: all.
class TypePlan {
 public:
  explicit TypePlan(Datatype type);

  const Datatype& type() const { return type_; }
  std::int64_t bytes() const { return bytes_; }          ///< of one item, packed
  std::int64_t run_bytes() const { return run_bytes_; }  ///< of a contiguous run, on average
  /// Whether items lie one behind the other without gaps, in the order in which they are packed.
  bool contiguous() const { return contiguous_; }

  /// So many items, and what packs them.
  struct Items {
    std::int64_t count = 0;
    Datatype type;
    Packer packer;
  };
  /// Returns what packs so many items; it is kept for the next time.
  std::shared_ptr<const Items> items(std::int64_t count);

 private:
  Datatype type_;
  std::int64_t bytes_ = 0;
  std::int64_t run_bytes_ = 0;
  bool contiguous_ = false;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const Items>> known_;  ///< of the latest counts
  std::size_t next_ = 0;                             ///< the place of the next one
};

/// Marks a type as committed; its plan is made when it is first used. The plan is an attribute of
/// the type: it goes with the type, and duplicates share it.
void keep_plan(MPI_Datatype type);

/// Returns the plan of a committed type. Null for types that MPI alone handles: basic ones, those
/// that are not committed, and those that cannot be read.
std::shared_ptr<TypePlan> plan_of(MPI_Datatype type);

/// Forgets how types are looked up; before MPI ends.
void forget_plans();

}  // namespace tranship::mpi
