// Indexed nests made ready for copies in host memory that are repeated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/indexed_nest.hpp"
#include "data/run.hpp"

namespace tranship {

/// A list of nests, compiled: short runs become lists of 32-bit offsets, one list for each length,
/// few nests become plain ones, which are grouped and joined as those of other copies are, and the
/// rest stays as it is. Owns its lists. Immutable; threads: all.
class HostProgram {
 public:
  explicit HostProgram(std::span<const IndexedNest> lists);

  /// Copies from `source` to `target`, which must not overlap, on the calling thread. Allocates
  /// nothing. cold: As for copy_nests().
  void copy(const std::byte* source, std::byte* target, bool cold) const;

 private:
  /// Runs of one length.
  struct ShortRuns {
    std::int64_t bytes = 0;
    std::size_t count = 0;
    std::int64_t source_begin = 0;
    std::int64_t target_begin = 0;
    std::vector<std::uint32_t> sources;  ///< from `source_begin`; empty: one run behind the other
    std::vector<std::uint32_t> targets;
    bool far = false;  ///< the listed side spans more than the inner caches hold
    LoopNest loops;    ///< the points at which all of it is repeated; rank 0: once
  };
  /// Compiles a list of short runs; returns false if it is something else.
  bool compile(const IndexedNest& list);
  bool add(std::span<const Run> runs, const LoopNest& loops);
  void leave(IndexedNest list, std::span<const IndexedEntry> entries);

  std::vector<LoopNest> nests_;
  std::vector<ShortRuns> short_runs_;
  std::vector<IndexedNest> rest_;
  std::vector<IndexedEntry> rest_entries_;
};

}  // namespace tranship
