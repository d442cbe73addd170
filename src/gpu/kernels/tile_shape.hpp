// The loops of a nest, divided by their role in a tile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/kernels/kernel_tuning.hpp"
#include "gpu/kernels/normal_nest.hpp"
#include "gpu/kernels/tile_plan.hpp"

namespace tranship::gpu {

/// Chooses which loops of a nest the target runs (p) and the source runs (q) of a tile go along.
class TileShape {
 public:
  TileShape(const NormalNest& normal, const KernelTuning& tuning);

  /// Chooses the loops of the runs. Returns false if tiles are of no use: both sides go along the
  /// same loop.
  bool choose_runs();

  std::int64_t bytes_p() const { return count_p * normal_.element_bytes; }
  std::int64_t bytes_q() const { return count_q * step_q; }
  std::int64_t wished_p() const;
  std::int64_t wished_q() const;

  /// Returns the further loop that the tile's rows go along: of the loops outside the runs, the one
  /// with the least stride; -1: none.
  int rows_loop() const;

  /// Returns whether target runs follow each other along all the loops of the source runs.
  bool joins_along_q() const;

  bool taken(std::size_t loop) const;

  const NormalNest& normal() const { return normal_; }

  std::vector<std::size_t> in_p, in_q;
  std::int64_t count_p = 1, count_q = 1;
  std::int64_t step_q = 0;

 private:
  std::int64_t source_stride(std::size_t loop) const;
  std::size_t fastest_in_source() const;
  bool choose_loops();
  void turn(std::size_t number);
  bool extend_p();
  bool extend_q();
  void grow(std::int64_t wished_target, std::int64_t wished_source);

  NormalNest normal_;
  const KernelTuning& tuning_;
};

}  // namespace tranship::gpu
