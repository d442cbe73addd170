// Division of a request's nests and lists into pieces that fit a slot.
#pragma once

#include <cstdint>
#include <span>

#include "data/indexed_nest.hpp"
#include "data/loop_nest.hpp"

namespace tranship::fabric {

/// A cursor over a request's nests, piece by piece. A piece is a sub-box of one nest with long
/// contiguous runs on both sides as far as its size allows (a transpose is cut into nearly square
/// tiles), so that neither side reads or writes short runs. Loops of a piece are sorted by the
/// source's stride: packed bytes are in the order of the source's memory; packing copies runs, and
/// unpacking, from a slot in the cache, does the reordering. By measurement this balances the two
/// sides best: packing is limited by waits for memory, which runs keep short.
/// Owns nothing: the nests must outlive it. Cost: a few operations for each piece, no allocation.
class PieceCursor {
 public:
  struct Options {
    std::int64_t piece_bytes = 0;
    std::int64_t run_bytes = 512;  ///< runs to reach on both sides before a piece grows further
  };

  PieceCursor() = default;
  PieceCursor(std::span<const LoopNest> nests, Options options);

  bool finished() const { return finished_; }

  /// Returns the current piece; its offsets are relative to the request's bases.
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
  bool remainder_due_ = false;  ///< an element longer than a piece leaves a shorter last part
  LoopNest part_;               ///< the nest, or the nest with its elements cut to pieces
  LoopNest remainder_;
  LoopNest piece_;
  std::array<std::int64_t, LoopNest::loops_max> step_{};
  std::array<std::int64_t, LoopNest::loops_max> position_{};
};

/// A cursor over the runs of indexed nests, which move nothing else. Owns nothing: the nests must
/// outlive it.
class RunCursor {
 public:
  RunCursor() = default;
  explicit RunCursor(std::span<const IndexedNest> nests) : nests_(nests) { begin_nest(); }

  bool finished() const { return nests_.empty(); }

  /// Returns the next run, or its first `bytes_max` bytes, of which there is at least one, and
  /// moves past what it returns.
  Run take(std::int64_t bytes_max);

 private:
  void begin_nest();
  void begin_entry();

  std::span<const IndexedNest> nests_;  ///< from the current one on
  std::size_t entry_ = 0;
  std::int64_t runs_left_ = 0;  ///< in the entry, with the current one
  std::int64_t run_bytes_ = 0;
  Run run_;  ///< what is left of the current one
};

}  // namespace tranship::fabric
