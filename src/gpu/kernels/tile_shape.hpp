// The loops of a nest, told apart by what a tile does with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/kernels/nest_work.hpp"
#include "gpu/kernels/record_parts.hpp"

namespace tranship::gpu {

/// A nest for tiles. Its elements are contiguous on both sides, or records of parts.
struct TileWork {
  Work work;                          ///< `element_bytes` are those in the target
  std::int64_t source_bytes = 0;      ///< bytes of an element in the source, gaps included
  std::span<const RecordPart> parts;  ///< empty: elements are contiguous
};

class TileShape {
 public:
  TileShape(const TileWork& work, const KernelTuning& tuning);

  /// Chooses the loops of the runs. Returns false if tiles are of no use: if elements are not
  /// records, and both sides go along the same loop. Runs of records may consist of one record.
  bool choose_runs();

  std::int64_t bytes_p() const { return count_p * work_.element_bytes; }
  std::int64_t bytes_q() const { return count_q * step_q; }
  std::int64_t wished_p() const;
  std::int64_t wished_q() const;

  /// Returns the loop, of those of no run, that the tile's rows go along as well: that of the least
  /// stride or, of records, one that has enough indices. rows: Most rows of a tile.
  int rows_loop(std::int64_t rows) const;

  /// Returns whether target runs follow each other along all the loops of the source runs.
  bool joins_along_q() const;

  bool taken(std::size_t loop) const;

  const Work& work() const { return work_; }
  std::int64_t source_bytes() const { return source_bytes_; }
  std::span<const RecordPart> parts() const { return parts_; }
  bool shuffled() const { return !parts_.empty(); }

  std::vector<std::size_t> in_p, in_q;
  std::int64_t count_p = 1, count_q = 1;
  std::int64_t step_q = 0;

 private:
  std::int64_t source_stride(std::size_t loop) const;
  std::size_t fastest_in_source() const;
  bool choose_element_runs();
  bool choose_record_runs();
  void turn(std::size_t number);
  bool extend_p();
  bool extend_q();
  void grow(std::int64_t wished_target, std::int64_t wished_source);

  Work work_;
  std::int64_t source_bytes_;
  std::span<const RecordPart> parts_;
  const KernelTuning& tuning_;
};

}  // namespace tranship::gpu
