// Which messages are packed here, and which are left to MPI: measured on this machine.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tranship::mpi {

/// What a choice is about.
enum class Task { message, pack, unpack };
constexpr std::size_t tasks = 3;

/// Whether it is faster to pack here than to let MPI, for `bytes` of elements whose contiguous runs
/// have `run_bytes` on average. Without measured choices it is not. The setting TRANSHIP_MPI_PACK
/// overrides them.
bool packing_is_faster(Task task, std::int64_t run_bytes, std::int64_t bytes);

}  // namespace tranship::mpi
