// Counts of the messages that were packed here or left to MPI, which TRANSHIP_MPI_REPORT=1 prints
// when MPI ends.
#pragma once

#include <atomic>
#include <cstdint>

namespace tranship::mpi {

/// Counts for one process. Threads: all.
class Report {
 public:
  /// The kinds of calls whose items were packed or unpacked here.
  enum Call { sent, received, collective, packed, unpacked, calls };
  /// Why a call with a derived type was left to MPI.
  enum Reason { contiguous, faster_by_mpi, too_long, no_memory, in_place, reasons };

  Report();

  void did(Call call, std::int64_t bytes, bool on_gpu) {
    if (!on_) return;
    Count& count = did_[call];
    count.calls.fetch_add(1, std::memory_order_relaxed);
    count.bytes.fetch_add(bytes, std::memory_order_relaxed);
    if (on_gpu) count.on_gpu.fetch_add(1, std::memory_order_relaxed);
  }
  void left(Reason reason, std::int64_t bytes) {
    if (!on_) return;
    left_[reason].calls.fetch_add(1, std::memory_order_relaxed);
    left_[reason].bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
  void type_left_alone() { types_left_.fetch_add(1, std::memory_order_relaxed); }

  /// Prints the counts of this process to stderr, if it was asked to. rank: in MPI_COMM_WORLD
  void print(int rank) const;

 private:
  struct Count {
    std::atomic<std::int64_t> calls{0};
    std::atomic<std::int64_t> bytes{0};
    std::atomic<std::int64_t> on_gpu{0};
  };

  bool on_ = false;
  bool all_ranks_ = false;
  Count did_[calls];
  Count left_[reasons];
  std::atomic<std::int64_t> types_left_{0};
};

/// Returns the counts of this process.
Report& report();

}  // namespace tranship::mpi
