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

  /// Makes a prefetcher for the source of `shape`. work_bytes: Bytes that are copied, in all steps,
  /// until the shape is copied.
  Prefetcher(const Shape& shape, std::int64_t work_bytes);

  /// Returns whether there is nothing to prefetch.
  bool idle() const { return lines_per_byte_ == 0; }

  /// Prefetches this block's share of lines for `bytes` of the work on the block before. A few
  /// lines at a time: processors drop prefetches beyond those that they can have outstanding.
  void keep_pace(std::int64_t bytes) {
    due_ += static_cast<float>(bytes) * lines_per_byte_;
    const auto count = static_cast<std::int64_t>(due_);
    due_ -= static_cast<float>(count);
    advance(count);
  }

  /// Spreads the lines that are left over `work_bytes`.
  void spread(std::int64_t work_bytes);

  /// Reads a byte of each line that is left: unlike prefetches, reads are not dropped.
  void read_all();

  /// Prefetches the next `count` lines into the L2 cache, or as many as are left.
  void advance(std::int64_t count);

 private:
  void next_line();
  void next_run();

  /// Starts at the line that contains the run's first byte.
  void begin_run();

  const std::byte* run_ = nullptr;  ///< the run's first byte
  const std::byte* at_ = nullptr;   ///< next line to prefetch
  std::int64_t run_bytes_ = 0;
  std::int64_t runs_left_ = 0;
  float lines_per_byte_ = 0;
  float due_ = 0;  ///< Lines that are due for prefetch, as a fraction of one.
  int rank_ = 0;
  std::int64_t index_[Shape::rank_max];
  std::int64_t extents_[Shape::rank_max];
  std::int64_t strides_[Shape::rank_max];
};

}  // namespace tranship::host
