// The MPI library that this one is built for.
#pragma once

// The C++ bindings of old MPI libraries are not needed.
#define MPICH_SKIP_MPICXX 1
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdint>
#include <cstring>

/// Defined where a call counts in MPI_Count too, such as MPI_Send_c().
#if MPI_VERSION >= 4
#define TRANSHIP_MPI_LARGE_COUNTS 1
#endif

/// Defined where MPI is of version 4.1 or later.
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
#define TRANSHIP_MPI_STATUS_OF_SEVERAL 1  // MPI_Request_get_status_all() and its kin
#define TRANSHIP_MPI_VALUE_INDEX 1        // types of MPI_Type_get_value_index()
#endif

/// Defined where MPI can begin with a session. Open MPI says that it is of version 3.1.
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define TRANSHIP_MPI_SESSIONS 1
#endif

/// Marks a function that stands in front of the MPI library's.
#define TRANSHIP_MPI_API extern "C" __attribute__((visibility("default")))

namespace tranship::mpi {

/// Returns a number for a handle, which is a number or a pointer.
template <typename Handle>
std::uint64_t number_of(Handle handle) {
  std::uint64_t number = 0;
  static_assert(sizeof handle <= sizeof number);
  std::memcpy(&number, &handle, sizeof handle);
  return number;
}

}  // namespace tranship::mpi
