// Reads how an MPI type was built, and builds the same type here.
#pragma once

#include <optional>

#include "mpi/handles.hpp"
#include "tranship/types.hpp"

namespace tranship::mpi {

/// Returns the bytes of the elements of an MPI type and their places: the same type, of raw bytes.
/// Nothing for a type of unknown construction, and for named types with gaps, such as
/// MPI_SHORT_INT.
std::optional<Datatype> read_type(MPI_Datatype type);

/// Whether a type is a basic one of MPI, which nobody constructed.
bool is_basic(MPI_Datatype type);

}  // namespace tranship::mpi
