// What the environment asks of the library.
#pragma once

#include <string>

namespace tranship::mpi {

/// Which messages of host memory are packed here.
enum class Packing {
  measured,  ///< those that are faster so, by the measured choices; without a file of them, none
  always,
  never,
};

/// Settings of this process, read once.
struct Settings {
  Packing packing = Packing::measured;  ///< TRANSHIP_MPI_PACK=measured, always or never
  std::string choices;                  ///< TRANSHIP_MPI_CHOICES: path of the measured choices
  bool emulates_gpus = false;           ///< TRANSHIP_EMULATED_GPUS: not 0
  int report = 0;  ///< TRANSHIP_MPI_REPORT: 1: of rank 0; 2 (all): of each rank
};

const Settings& settings();

}  // namespace tranship::mpi
