// Reads how an MPI type was built, and builds the same type here.
#pragma once

#include <optional>

#include "mpi/choices.hpp"
#include "mpi/handles.hpp"
#include "tranship/types.hpp"

namespace tranship::mpi {

/// An MPI type as it is known here.
struct ReadType {
  Datatype type;  ///< the bytes of the elements and their places, as raw bytes
  /// The kind of constructor, in it or in a base, that comes last in the list of kinds.
  Construction construction = Construction::blocks;
};

/// Reads an MPI type. Returns nothing for a type of unknown construction, and for named types with
/// gaps, such as MPI_SHORT_INT.
std::optional<ReadType> read_type(MPI_Datatype type);

/// Whether a type is a basic one of MPI, which nobody constructed.
bool is_basic(MPI_Datatype type);

}  // namespace tranship::mpi
