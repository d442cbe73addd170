#include "mpi/block_counts.hpp"

namespace tranship::mpi {
namespace {

/// Finds out which neighbours of a grid are not there.
std::vector<bool> absent_neighbours(MPI_Comm comm, int dimensions) {
  std::vector<bool> absent;
  for (int k = 0; k < dimensions; ++k) {
    int before = MPI_PROC_NULL;
    int after = MPI_PROC_NULL;
    if (PMPI_Cart_shift(comm, k, 1, &before, &after) != MPI_SUCCESS) return {};
    absent.push_back(before == MPI_PROC_NULL);
    absent.push_back(after == MPI_PROC_NULL);
  }
  return absent;
}

}  // namespace

BlockCounts blocks_of_all(MPI_Comm comm) {
  int between = 0;
  int processes = 0;
  if (PMPI_Comm_test_inter(comm, &between) != MPI_SUCCESS) return {};
  const int code =
      between != 0 ? PMPI_Comm_remote_size(comm, &processes) : PMPI_Comm_size(comm, &processes);
  return code == MPI_SUCCESS ? BlockCounts{processes, processes} : BlockCounts{};
}

BlockCounts blocks_of_neighbours(MPI_Comm comm) {
  int topology = MPI_UNDEFINED;
  if (PMPI_Topo_test(comm, &topology) != MPI_SUCCESS) return {};
  BlockCounts blocks;
  if (topology == MPI_CART) {
    int dimensions = 0;
    if (PMPI_Cartdim_get(comm, &dimensions) != MPI_SUCCESS) return {};
    blocks = {2 * dimensions, 2 * dimensions, absent_neighbours(comm, dimensions)};
  } else if (topology == MPI_GRAPH) {
    int rank = 0;
    int neighbours = 0;
    if (PMPI_Comm_rank(comm, &rank) != MPI_SUCCESS ||
        PMPI_Graph_neighbors_count(comm, rank, &neighbours) != MPI_SUCCESS) {
      return {};
    }
    blocks = {neighbours, neighbours};
  } else if (topology == MPI_DIST_GRAPH) {
    int weighted = 0;
    if (PMPI_Dist_graph_neighbors_count(comm, &blocks.got, &blocks.sent, &weighted) !=
        MPI_SUCCESS) {
      return {};
    }
  }
  return blocks;
}

}  // namespace tranship::mpi
