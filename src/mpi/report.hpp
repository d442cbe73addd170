// What was done and what was left alone: TRANSHIP_MPI_REPORT=1 prints it when MPI ends.
#pragma once

#include <atomic>
#include <cstdint>

namespace tranship::mpi {

/// Counts for one process. Threads: all.
class Report {
 public:
  /// What was packed or unpacked here.
  enum Work { sent, received, collective, packed, unpacked, works };
  /// Why MPI got a call with a type as it was.
  enum Reason { contiguous, faster_by_mpi, too_long, no_memory, in_place, reasons };

  Report();

  void did(Work work, std::int64_t bytes, bool on_gpu) {
    if (!on_) return;
    Count& count = did_[work];
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
  Count did_[works];
  Count left_[reasons];
  std::atomic<std::int64_t> types_left_{0};
};

/// The counts of this process.
Report& report();

}  // namespace tranship::mpi
