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

  /// How many lines there are in all, give or take one for each run.
  std::int64_t lines() const { return runs_ * ((run_bytes_ + line_bytes - 1) / line_bytes); }

  /// Prefetches the next `count` lines, or as many as are left.
  void advance(std::int64_t count);

 private:
  static constexpr std::int64_t line_bytes = 64;

  void next_run();

  const std::byte* run_ = nullptr;
  std::int64_t at_ = 0;          ///< bytes of the run that were asked for
  std::int64_t run_bytes_ = 0;
  std::int64_t runs_ = 0;
  std::int64_t runs_left_ = 0;
  int rank_ = 0;
  std::int64_t index_[Shape::rank_max];
  std::int64_t extents_[Shape::rank_max];
  std::int64_t strides_[Shape::rank_max];
};

}  // namespace tranship::host
