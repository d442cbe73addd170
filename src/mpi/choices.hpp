// Which messages are packed here, and which are left to MPI: measured on this machine.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tranship::mpi {

/// What a choice is about.
enum class Task { message, pack, unpack };
constexpr std::size_t tasks = 3;

/// What MPI libraries see of a type.
struct TypeShape {
  bool listed = false;         ///< a list names its places; else loops do
  std::int64_t run_bytes = 0;  ///< of a contiguous run, on average
  std::int64_t bytes = 0;      ///< of all elements
};

/// Whether it is faster to pack elements here than to let MPI. Without measured choices it is not.
/// The setting TRANSHIP_MPI_PACK overrides them.
bool packing_is_faster(Task task, const TypeShape& shape);

}  // namespace tranship::mpi
