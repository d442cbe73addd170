// The boxes into which a table tile may cut a nest, and the search for the best one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <vector>

#include "gpu/kernels/kernel_tuning.hpp"
#include "gpu/kernels/normal_nest.hpp"
#include "gpu/kernels/record_parts.hpp"
#include "gpu/kernels/table_tile_plan.hpp"
#include "gpu/kernels/tile_plan.hpp"

namespace tranship::gpu {

/// Widest unit, in bytes, for which there is a kernel.
constexpr std::int64_t table_unit_bytes_max = 8;
/// Most loops of a nest that are looked at; a nest with more is carried otherwise.
constexpr std::size_t table_loops_max = kernel_loops_max;
/// A kernel counts the indices of each loop in 31 bits, and the last box reaches beyond them.
constexpr std::int64_t table_extent_max = (std::int64_t{1} << 31) - (std::int64_t{1} << 20);

/// Bytes of shared memory that hold where a row begins, and where a target run begins among them.
constexpr std::int64_t table_row_bytes = 8;
constexpr std::int64_t table_base_bytes = 4;

/// What a box does with a loop.
enum class Role : std::uint8_t {
  outside,  ///< a block has one index
  period,   ///< within a period of the target run
  chunk,    ///< along the target run, from period to period
  across,   ///< along source rows, from target run to target run
  rows,     ///< along neither: more source rows, and more target runs
};

/// A box: the roles of the loops, and how many indices of each it has.
struct Box {
  std::array<Role, table_loops_max> roles{};
  std::array<bool, table_loops_max> in_row{};  ///< whether a source row goes along the loop
  int chunk = -1;                              ///< the loop of that role
  int last_in_row = -1;           ///< the loop whose indices lie farthest apart in a row
  int more = -1;                  ///< the loop of role `rows`
  std::int64_t period_bytes = 0;  ///< of the target, from position to position
  std::int64_t moved_bytes = 0;   ///< of a period
  std::int64_t row_step = 0;      ///< bytes of a row for each index of `last_in_row`
  std::int64_t row_inner = 0;     ///< bytes of a row for one index of it
  std::int64_t rows_in = 1;       ///< source rows of one position
  std::int64_t across_inner = 1;  ///< target runs for each index of the last such loop
  std::int64_t chunks = 1;        ///< positions that a tile writes
  std::int64_t margin = 0;        ///< positions that it holds before those
  std::int64_t across = 1;        ///< target runs
  std::int64_t more_rows = 1;     ///< indices of the loop `more`
  double cost = std::numeric_limits<double>::infinity();  ///< bytes moved for each byte

  bool gaps() const { return moved_bytes < period_bytes; }
};

/// Finds the box whose memory traffic is least.
class BoxSearch {
 public:
  BoxSearch(const RecordParts& records, const std::byte* source, const std::byte* target,
            const KernelTuning& tuning);

  Box best();

  std::int64_t unit() const { return unit_; }
  const std::vector<std::size_t>& order() const { return order_; }
  std::int64_t pitch_of(std::int64_t bytes) const {
    return (ceil_divide(bytes, word_) | 1) * word_;
  }

  std::int64_t bytes_in_row(const Box& box) const {
    return box.row_inner + (last_count(box, box.chunks + box.margin) - 1) * box.row_step;
  }

  std::int64_t source_rows(const Box& box) const {
    return box.rows_in * (by_rows(box) ? box.chunks + box.margin : 1);
  }

  /// Returns whether each index of a loop has source rows of its own.
  bool has_rows(const Box& box, std::size_t k) const {
    return !box.in_row[k] && loops_[k].source_stride != 0;
  }

  /// Returns whether each position has source rows of its own.
  bool by_rows(const Box& box) const { return box.chunk >= 0 && has_rows(box, index(box.chunk)); }

  std::int64_t shared_bytes(const Box& box) const;

  std::int64_t tables(const Box& box) const;

  /// Returns the bytes that a tile of one row of the loop `more` writes.
  static std::int64_t written_bytes(const Box& box) {
    return box.moved_bytes * box.chunks * box.across;
  }

  /// Returns the or-ed numbers on which the alignment of any piece of the target depends beside its
  /// own offset.
  std::int64_t piece_bits(const Box& box) const;

  /// Largest misalignment of target runs, in bytes, within a sector; 0: all begin at sectors.
  std::int64_t target_end_bytes(const Box& box) const;

 private:
  std::size_t index(int loop) const { return static_cast<std::size_t>(loop); }

  std::int64_t last_count(const Box& box, std::int64_t held) const;

  /// Returns how many loops, fastest in the target first, continue each other there.
  std::size_t chain_in_target() const;

  /// Gives the first `along` loops to the target run, and the `in_row` first ones in the source to
  /// the source rows. Returns false if they make no box.
  bool assign(std::size_t along, std::size_t in_row, Box& box) const;

  bool assign_rows(std::size_t in_row, Box& box) const;

  bool count_rows(Box& box) const;

  void search_extents(Box& box, Box& best) const;

  /// Keeps the box if it is the best. Returns false if it does not fit.
  bool weigh(Box& box, Box& best) const;

  std::int64_t source_end_bits(const Box& box) const;

  /// Lets small boxes have more rows, along the loop outside that has the least stride.
  void add_rows(Box& box) const;

  /// Returns whether the place of any unit fits an entry of the table.
  bool table_fits(const Box& box) const;

  const RecordParts& records_;
  const std::vector<Loop>& loops_;
  std::vector<std::size_t> order_;  ///< the loops, fastest in the source first
  std::int64_t source_bits_ = 0;
  std::int64_t target_bits_ = 0;
  std::int64_t unit_ = 1;
  std::int64_t word_ = 4;
  std::int64_t budget_ = 0;
};

}  // namespace tranship::gpu
