// Lists of contiguous runs in the shortest form: two or three numbers for each run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace tranship {

/// One side of the runs: run k begins `offset + (places[k] >> shift) * step` bytes from the base.
struct RunSide {
  std::span<const std::int64_t> places;  ///< none is negative; multiples of 1 << shift
  int shift = 0;
  std::int64_t step = 1;
  std::int64_t offset = 0;

  /// Returns where run k begins, in bytes from the base.
  std::int64_t begin(std::size_t k) const { return offset + (places[k] >> shift) * step; }
};

/// Runs, each from and to a place of its own. It says what an indexed nest of as many entries says,
/// but refers to the caller's lists, so that a long list costs one pass: only a copy that starts
/// during the call, in one launch of a GPU, goes in this form.
struct RunList {
  RunSide source;
  RunSide target;
  std::int64_t bytes = 0;                   ///< of all runs
  std::span<const std::int64_t> lengths{};  ///< of each; empty: all are as long
  int length_shift = 0;                     ///< the lengths are multiples of 1 << length_shift

  std::int64_t count() const { return static_cast<std::int64_t>(source.places.size()); }
  /// Bytes of each run, if all are as long.
  std::int64_t run_bytes() const { return bytes / count(); }
};

/// Writes the numbers, none of which is negative, shifted to the right: the table that a GPU reads.
/// Those beyond 32 bits are cut.
void write_shifted(std::span<const std::int64_t> numbers, int shift, std::uint32_t* to);

/// Largest number that a table of 32-bit places holds, shifted.
constexpr std::int64_t run_place_most = std::numeric_limits<std::uint32_t>::max();

}  // namespace tranship
