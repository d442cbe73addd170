// Asks for the source lines of a block ahead of its turn.
#pragma once

#include "channels/host/shape.hpp"

namespace tranship::host {

/// Walks the cache lines of a shape's source, a few at a time, and prefetches them: a block reads
/// many short runs, too few bytes each for the hardware to see them coming.
class Prefetcher {
 public:
  /// Nothing to prefetch.
  Prefetcher() = default;

  explicit Prefetcher(const Shape& shape);

  /// Prefetches this block's share of lines while 512 bytes of the block before are written.
  void keep_pace() { advance(pace_); }

  /// Prefetches the next `count` lines into the L2 cache, or as many as are left.
  void advance(std::int64_t count);

 private:
  void next_run();

  /// Begins with the line that holds the run's first byte.
  void begin_run();

  const std::byte* run_ = nullptr;  ///< the run's first byte
  const std::byte* at_ = nullptr;   ///< the next line to ask for
  std::int64_t run_bytes_ = 0;
  std::int64_t runs_left_ = 0;
  std::int64_t pace_ = 0;  ///< lines for every 512 bytes of payload
  int rank_ = 0;
  std::int64_t index_[Shape::rank_max];
  std::int64_t extents_[Shape::rank_max];
  std::int64_t strides_[Shape::rank_max];
};

}  // namespace tranship::host
