// Where MPI writes statuses, which the caller may not want.
#pragma once

#include <cstddef>
#include <vector>

#include "mpi/handles.hpp"

namespace tranship::mpi {

/// A status. It says that nothing has arrived until MPI writes it: some libraries leave it as it
/// is where a call fails and an error handler of the program returns.
class OneStatus {
 public:
  explicit OneStatus(MPI_Status* given) : used_(given != MPI_STATUS_IGNORE ? given : &own_) {
    *used_ = MPI_Status{};
  }
  MPI_Status* get() { return used_; }

 private:
  MPI_Status own_{};
  MPI_Status* used_;
};

/// The statuses of several requests.
class ManyStatuses {
 public:
  ManyStatuses(MPI_Status* given, int count) : used_(given) {
    if (given == MPI_STATUSES_IGNORE) {
      own_.resize(static_cast<std::size_t>(count));
      used_ = own_.data();
    }
    for (int k = 0; k < count; ++k) used_[k] = MPI_Status{};
  }
  MPI_Status* get() { return used_; }
  const MPI_Status& operator[](int k) const { return used_[k]; }

 private:
  std::vector<MPI_Status> own_;
  MPI_Status* used_;
};

}  // namespace tranship::mpi
