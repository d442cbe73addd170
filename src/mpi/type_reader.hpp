// Reads how an MPI type was built, and builds the same type here.
#pragma once

#include <optional>

#include "mpi/choices.hpp"
#include "mpi/handles.hpp"
#include "tranship/types.hpp"

namespace tranship::mpi {

/// An MPI type, converted to a Datatype.
struct ReadType {
  Datatype type;  ///< The elements as raw bytes, at their offsets.
  /// Of the kinds of constructors in the type and its bases, the one that comes last in Kind.
  Construction construction = Construction::blocks;
};

/// Reads an MPI type. Returns nothing for types of unknown constructors, and for named types with
/// gaps, such as MPI_SHORT_INT.
std::optional<ReadType> read_type(MPI_Datatype type);

/// Returns whether a type is one of MPI's basic types, which no constructor made.
bool is_basic(MPI_Datatype type);

}  // namespace tranship::mpi
