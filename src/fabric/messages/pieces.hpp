// Cuts the nests of a request into pieces that fit a slot.
#pragma once

#include <cstdint>
#include <span>

#include "data/loop_nest.hpp"

namespace tranship::fabric {

/// Walks the nests of a request, piece after piece. A piece is a sub-box of one nest with long
/// contiguous runs on both sides as far as its size allows (a transpose is cut into squarish
/// tiles), so that neither side reads or writes memory in crumbs. Loops of a piece are sorted by
/// the source's stride: packed bytes lie in the order of the source's memory, packing copies runs,
/// and unpacking, from a slot in the cache, does the rest. Measured, that balances the two sides
/// best: waiting for memory is what packing costs, and packing in runs keeps that short.
/// Owns nothing: the nests must outlive it. Cost: a few operations a piece, no allocation.
class PieceCursor {
 public:
  struct Options {
    std::int64_t piece_bytes = 0;
    std::int64_t run_bytes = 512;  ///< runs worth having on both sides before a piece grows on
  };

  PieceCursor() = default;
  PieceCursor(std::span<const LoopNest> nests, Options options);

  bool finished() const { return finished_; }

  /// The piece under the cursor; offsets count from the request's bases.
  const LoopNest& piece() const { return piece_; }

  void advance();

 private:
  void begin_nest();
  void begin_part(const LoopNest& part);
  void cut();

  std::span<const LoopNest> nests_;
  Options options_;
  std::size_t nest_index_ = 0;
  bool finished_ = true;
  bool remainder_due_ = false;  ///< an element longer than a piece leaves a shorter end
  LoopNest part_;               ///< the nest, or its elements cut to pieces
  LoopNest remainder_;
  LoopNest piece_;
  std::array<std::int64_t, LoopNest::loops_max> step_{};
  std::array<std::int64_t, LoopNest::loops_max> position_{};
};

}  // namespace tranship::fabric
