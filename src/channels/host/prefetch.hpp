// Prefetches the source lines of a block before it is copied.
#pragma once

#include "channels/host/shape.hpp"

namespace tranship::host {

/// Walks the cache lines of a shape's source, a few at a time, and prefetches them: a block reads
/// many short runs, which are too short for the hardware prefetcher.
class Prefetcher {
 public:
  /// Makes a prefetcher that does nothing.
  Prefetcher() = default;

  explicit Prefetcher(const Shape& shape);

  /// Prefetches this block's share of lines while 512 bytes of the block before are written.
  void keep_pace() { advance(pace_); }

  /// Prefetches the next `count` lines into the L2 cache, or as many as are left.
  void advance(std::int64_t count);

 private:
  void next_run();

  /// Starts at the line that contains the run's first byte.
  void begin_run();

  const std::byte* run_ = nullptr;  ///< the run's first byte
  const std::byte* at_ = nullptr;   ///< next line to prefetch
  std::int64_t run_bytes_ = 0;
  std::int64_t runs_left_ = 0;
  std::int64_t pace_ = 0;  ///< lines for every 512 bytes of payload
  int rank_ = 0;
  std::int64_t index_[Shape::rank_max];
  std::int64_t extents_[Shape::rank_max];
  std::int64_t strides_[Shape::rank_max];
};

}  // namespace tranship::host
