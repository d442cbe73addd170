// Which messages are packed here, and which are left to MPI: measured on this machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tranship::mpi {

/// The kinds of calls between which choices differ.
enum class Task { message, pack, unpack };
constexpr std::size_t tasks = 3;

/// How a type was built. MPI libraries carry each at a speed of its own.
enum class Construction {
  blocks,   ///< loops over contiguous blocks
  arrays,   ///< sub-arrays of basic elements, and structures of few of them
  vectors,  ///< vectors of basic elements
  structs,  ///< other structures
  lists,    ///< lists that name places
};
constexpr std::size_t constructions = 5;
/// Their names in the file of measured choices.
constexpr std::array<const char*, constructions> construction_names{"blocks", "arrays", "vectors",
                                                                    "structs", "lists"};

/// The properties of a type on which the speed of MPI libraries depends.
struct TypeShape {
  Construction construction = Construction::blocks;
  std::int64_t run_bytes = 0;   ///< of a contiguous run, on average
  std::int64_t bytes = 0;       ///< of all elements
  std::int64_t span_bytes = 0;  ///< from the first element to the end of the last
};

/// Returns whether packing elements here is faster than leaving them to MPI; false without measured
/// choices. The setting TRANSHIP_MPI_PACK overrides the choices.
bool packing_is_faster(Task task, const TypeShape& shape);

}  // namespace tranship::mpi
