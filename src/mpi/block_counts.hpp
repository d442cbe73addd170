// How many blocks a collective call has on each side.
#pragma once

#include <vector>

#include "mpi/handles.hpp"

namespace tranship::mpi {

/// How many blocks a process sends and receives.
struct BlockCounts {
  int sent = 0;
  int got = 0;
  /// The blocks of neighbours that are not there, at the edges of a grid: nothing is sent to them,
  /// and what is received from them stays as it is. Empty: all are there.
  std::vector<bool> absent{};
};

/// Returns one block for each process of a communicator.
BlockCounts blocks_of_all(MPI_Comm comm);

/// Returns one block for each neighbour in a communicator's topology.
BlockCounts blocks_of_neighbours(MPI_Comm comm);

}  // namespace tranship::mpi
