// Copies boxes of one form, such as the blocks of a shape.
#pragma once

#include <cstdint>

#include "channels/host/kernels.hpp"
#include "channels/host/prefetch.hpp"
#include "channels/host/shape.hpp"

namespace tranship::host {

/// Offsets of the points of several axes on both sides, the first axis inside.
struct List {
  std::int64_t count;
  std::int64_t sources[list_max];
  std::int64_t targets[list_max];

  /// Makes a list of one point.
  void reset();

  /// Appends as much of an axis as there is room for, and leaves its other points, farther apart,
  /// in `axis`. Returns whether it took all of it.
  /// most: Largest number of points that the list may have.
  bool take(Axis& axis, std::int64_t most = list_max);
};

/// How boxes of one form are copied, found once for all boxes that differ in their addresses alone.
/// Has some 30 KiB.
class BoxPlan {
 public:
  /// Finds the method for `box`, whose extents are at most `list_max` or multiples of it. The
  /// pieces of the box are kept by reference. repeats: Whether enough boxes follow to pay for a
  /// program of shuffles.
  void make(const Shape& box, const Kernels& set, bool repeats);

  /// Returns whether `box` is of the form that this plan was made for.
  bool suits(const Shape& box) const;

  /// Copies the box at these addresses.
  /// readable: Bytes of the source that may be read beside those of the box.
  /// next: Prefetches lines of the next box meanwhile.
  void copy(const std::byte* source, std::byte* target, MemoryRange readable,
            Prefetcher& next) const;

 private:
  enum class Method { none, squares, interleave, records, shuffle, moves };

  void turn(Axis& axis);
  bool make_squares(const Kernels& set);
  bool make_records(const Kernels& set);
  bool make_shuffle(const Kernels& set);
  void make_moves();
  bool take_rows();
  void take_columns();
  void leave_rest();
  bool is_dense_chain(int axis) const;
  int begin_lists();
  bool lies_within(const Grid& grid, MemoryRange readable) const;
  void find_row_bytes();
  bool is_packable() const;
  bool is_crowded() const;
  void copy_grid(const Grid& grid, MemoryRange readable) const;
  void copy_parts(const Grid& grid, MemoryRange readable, Prefetcher& next) const;
  void copy_packed(const Grid& grid, Prefetcher& next) const;
  bool make_interleave(const Kernels& set);
  void choose_parts();
  void move_pieces(const Grid& grid) const;

  Method method_ = Method::none;
  GridKernel kernel_ = nullptr;  ///< the squares' or the wide moves' kernel
  void (*shuffle_)(const ShuffleProgram&, const Grid&) = nullptr;
  void (*record_kernel_)(const RecordProgram&, const Grid&) = nullptr;
  std::int64_t read_low_ = 0;  ///< bytes that `kernel_` or a program reads, from a grid's source
  std::int64_t read_high_ = 0;
  std::int64_t row_low_ = 0;  ///< Range of a source row that belongs to one column, in bytes.
  std::int64_t row_high_ = 0;
  std::int64_t row_step_ = 0;   ///< Bytes from one column to the next; 0: they differ.
  std::int64_t part_rows_ = 0;  ///< rows and columns that are copied between prefetches
  std::int64_t part_columns_ = 0;
  std::int64_t row_pitch_ = 0;
  std::int64_t column_pitch_ = 0;
  bool even_targets_ = false;
  std::int64_t records_ = 0;  ///< Number of records, for the kernel that interleaves.
  bool packs_ = false;        ///< the rows' lines map to too few sets of the L1 cache to stay in it
  std::int64_t element_bytes_ = 0;
  std::span<const ElementPiece> pieces_;
  bool dense_ = true;
  std::int64_t source_shift_ =
      0;  ///< of the first point, for axes that are walked from the other end
  std::int64_t target_shift_ = 0;
  Shape form_;
  int rank_ = 0;
  Axis axes_[2 * Shape::rank_max];
  Axis left_[2 * Shape::rank_max];  ///< The parts of the axes that are in no list.
  int by_source_[2 * Shape::rank_max];
  int rest_rank_ = 0;
  Axis rest_[2 * Shape::rank_max];
  List rows_;
  List columns_;
  ShuffleProgram program_;
  RecordProgram record_;
};

/// Copies boxes with the plan of the box before where that has the same form.
class BoxCopier {
 public:
  /// readable: Bytes of the source that may be read beside those of the boxes.
  BoxCopier(const Kernels& set, MemoryRange readable, bool repeats)
      : set_(set), readable_(readable), repeats_(repeats) {}

  void copy(const Shape& box, Prefetcher& next);

 private:
  const Kernels& set_;
  MemoryRange readable_;
  bool repeats_;
  int last_ = 0;
  BoxPlan plans_[2];  ///< of whole blocks, and of those at an edge
};

}  // namespace tranship::host
