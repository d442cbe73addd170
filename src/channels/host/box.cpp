#include "channels/host/box.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "channels/host/moves.hpp"
#include "channels/host/shuffle.hpp"

namespace tranship::host {
namespace {

/// Length from which a run of shuffles is not made longer.
constexpr std::int64_t shuffled_run_bytes = 256;

/// Lists of fewer points are not worth an inner loop.
constexpr std::int64_t inner_rows_min = 8;

/// A part of a grid that is packed: rows, and the bytes of each.
constexpr std::int64_t packed_rows = 64;
constexpr std::int64_t packed_row_bytes = 256;

bool same_axes(const Shape& a, const Shape& b) {
  if (a.rank != b.rank || a.element_bytes != b.element_bytes) return false;
  for (int k = 0; k < a.rank; ++k) {
    if (a.axes[k].extent != b.axes[k].extent ||
        a.axes[k].source_stride != b.axes[k].source_stride ||
        a.axes[k].target_stride != b.axes[k].target_stride) {
      return false;
    }
  }
  return true;
}

/// Returns the distance of the offsets of a list if all are equally far apart, or 0.
std::int64_t pitch_of(const std::int64_t* offsets, std::int64_t count) {
  if (count < 2) return 0;
  const std::int64_t pitch = offsets[1] - offsets[0];
  for (std::int64_t k = 2; k < count; ++k) {
    if (offsets[k] - offsets[k - 1] != pitch) return 0;
  }
  return pitch;
}

}  // namespace

void List::reset() {
  count = 1;
  sources[0] = targets[0] = 0;
}

bool List::take(Axis& axis, std::int64_t most) {
  const std::int64_t wanted = std::clamp<std::int64_t>(most / count, 1, axis.extent);
  std::int64_t extent = wanted;
  while (axis.extent % extent != 0) --extent;
  if (2 * extent < wanted && axis.extent * count <= list_max) extent = axis.extent;
  for (std::int64_t i = 1; i < extent; ++i) {
    for (std::int64_t k = 0; k < count; ++k) {
      sources[i * count + k] = sources[k] + i * axis.source_stride;
      targets[i * count + k] = targets[k] + i * axis.target_stride;
    }
  }
  count *= extent;
  axis = {axis.extent / extent, axis.source_stride * extent, axis.target_stride * extent};
  return axis.extent == 1;
}

void BoxPlan::make(const Shape& box, const Kernels& set, bool repeats) {
  form_ = box;
  element_bytes_ = box.element_bytes;
  pieces_ = box.pieces;
  dense_ = box.dense;
  rank_ = 0;
  source_shift_ = target_shift_ = 0;
  for (int k = 0; k < box.rank; ++k) {
    Axis axis = box.axes[k];
    if (axis.extent == 1) continue;
    if (axis.source_stride == -element_bytes_ && axis.target_stride != element_bytes_) {
      turn(axis);
    }
    const std::int64_t parts = axis.extent / list_max;
    if (axis.extent > list_max) axis.extent = list_max;
    axes_[rank_++] = axis;
    if (parts < 2) continue;
    axes_[rank_++] = {parts, axis.source_stride * list_max, axis.target_stride * list_max};
  }
  for (int k = 0; k < rank_; ++k) by_source_[k] = k;
  std::sort(by_source_, by_source_ + rank_, [&](int a, int b) {
    return std::abs(axes_[a].source_stride) < std::abs(axes_[b].source_stride);
  });
  const bool found = make_squares(set) || make_records(set) || (repeats && make_shuffle(set));
  if (!found) make_moves();
  leave_rest();
  row_pitch_ = pitch_of(rows_.sources, rows_.count);
  column_pitch_ = pitch_of(columns_.targets, columns_.count);
  even_targets_ = pitch_of(rows_.targets, rows_.count) != 0;
  find_row_bytes();
  packs_ = is_packable() && is_crowded();
  choose_parts();
}

/// Walks an axis from its other end, so that it ascends in the source.
void BoxPlan::turn(Axis& axis) {
  source_shift_ += (axis.extent - 1) * axis.source_stride;
  target_shift_ += (axis.extent - 1) * axis.target_stride;
  axis.source_stride = -axis.source_stride;
  axis.target_stride = -axis.target_stride;
}

/// Chooses parts of some 1 KiB, with whole cache lines on both sides.
void BoxPlan::choose_parts() {
  constexpr std::int64_t part_bytes = 1024;
  constexpr std::int64_t side = 16;
  if (method_ == Method::squares) {
    part_rows_ = element_bytes_ > 4 ? side / 2 : side;
    part_columns_ = std::max(line_bytes / element_bytes_ / 4 * 4, side / 2);
    return;
  }
  const bool row_by_row = method_ == Method::moves || method_ == Method::records;
  part_rows_ = row_by_row ? std::min(rows_.count, packed_rows) : rows_.count;
  part_columns_ = std::max<std::int64_t>(1, part_bytes / (part_rows_ * element_bytes_));
}

/// Finds what a row of the source has for one column, and how far apart the columns are.
void BoxPlan::find_row_bytes() {
  row_low_ = 0;
  row_high_ = element_bytes_;
  if (method_ == Method::records) {
    row_low_ = record_.source_low;
    row_high_ = record_.source_high;
  }
  row_step_ = pitch_of(columns_.sources, columns_.count);
}

/// Returns whether the columns lie one behind the other in rows of the source, which may be copied
/// side by side before.
bool BoxPlan::is_packable() const {
  switch (method_) {
    case Method::squares:
    case Method::moves:
      return pieces_.empty() && element_bytes_ < 16 && row_step_ == element_bytes_;
    case Method::records:
      return row_step_ > 0 && row_step_ <= line_bytes && row_high_ - row_low_ <= 2 * line_bytes;
    default: return false;
  }
}

/// Returns whether more of the rows than the ways of the L1 cache share a set.
bool BoxPlan::is_crowded() const {
  constexpr std::int64_t way_bytes = 4096;
  constexpr std::int64_t sets = way_bytes / line_bytes;
  constexpr int ways = 8;
  if (rows_.count <= ways || columns_.count < inner_rows_min) return false;
  std::uint8_t lines[sets] = {};
  const std::int64_t count = std::min(rows_.count, packed_rows);
  for (std::int64_t k = 0; k < count; ++k) {
    const auto at = static_cast<std::uint64_t>(rows_.sources[k]) % way_bytes;
    if (++lines[at / line_bytes] > ways) return true;
  }
  return false;
}

bool BoxPlan::suits(const Shape& box) const {
  return method_ != Method::none && same_axes(form_, box) && box.pieces.data() == pieces_.data();
}

/// Returns whether the axis continues the rows' run in the target.
bool BoxPlan::is_dense_chain(int axis) const {
  return dense_ && axis < rank_ && axes_[axis].target_stride == element_bytes_ * rows_.count;
}

bool BoxPlan::make_squares(const Kernels& set) {
  const int unit = begin_lists();
  if (!pieces_.empty() || element_bytes_ > 16 || set.transpose[element_bytes_] == nullptr) {
    return false;
  }
  if (unit <= 0 || !is_dense_chain(0)) return false;
  for (int k = 0; k != unit && is_dense_chain(k) && rows_.take(left_[k]); ++k) {
  }
  for (int n = 0; n < rank_; ++n) {
    Axis& axis = left_[by_source_[n]];
    if (axis.extent == 1 || axis.source_stride != element_bytes_ * columns_.count) continue;
    if (!columns_.take(axis)) break;
  }
  if (make_interleave(set)) return true;
  const std::int64_t least = set.transpose_least[element_bytes_];
  if (rows_.count < least || columns_.count < least) return false;
  method_ = Method::squares;
  kernel_ = set.transpose[element_bytes_];
  return true;
}

/// Empties the lists; returns the axis along which elements of the source are contiguous, or -1.
int BoxPlan::begin_lists() {
  rows_.reset();
  columns_.reset();
  std::copy(axes_, axes_ + rank_, left_);
  for (int k = 0; k < rank_; ++k) {
    if (axes_[k].source_stride == element_bytes_) return k;
  }
  return -1;
}

/// Chooses the kernel that interleaves, if the lists that make_squares() has made are records of a
/// few elements.
bool BoxPlan::make_interleave(const Kernels& set) {
  if (element_bytes_ > 4 || set.interleave[element_bytes_] == nullptr) return false;
  const bool joins = rows_.count < columns_.count;
  const std::int64_t fields = joins ? rows_.count : columns_.count;
  if (fields < 2 || fields > set.interleave_most[element_bytes_]) return false;
  const List& records = joins ? columns_ : rows_;
  const std::int64_t* at = joins ? records.targets : records.sources;
  for (std::int64_t k = 0; k < records.count; ++k) {
    if (at[k] != k * fields * element_bytes_) return false;
  }
  records_ = records.count;
  for (int k = 0; k < rank_; ++k) {  // the kernel needs no list of the records
    Axis& axis = left_[k];
    const std::int64_t near = records_ * element_bytes_;
    const Axis next{axis.extent, joins ? near : near * fields, joins ? near * fields : near};
    if (axis.extent == 1 || axis.source_stride != next.source_stride ||
        axis.target_stride != next.target_stride) {
      continue;
    }
    records_ *= axis.extent;
    axis.extent = 1;
  }
  method_ = Method::interleave;
  kernel_ = set.interleave[element_bytes_];
  return true;
}

bool BoxPlan::make_records(const Kernels& set) {
  constexpr std::int64_t window_bytes = 16;
  if (set.records == nullptr || pieces_.empty() || !dense_) return false;
  begin_lists();
  const bool dense = take_rows();
  if (element_bytes_ < window_bytes) {
    // A vector writes beyond a short record, where the next record is written later. Records within
    // one window are better copied by one shuffle together.
    if (!dense || rows_.count < inner_rows_min) return false;
    if (std::abs(rows_.sources[1]) <= window_bytes) return false;
  }
  if (!make_record_program(element_bytes_, pieces_, record_)) return false;
  method_ = Method::records;
  record_kernel_ = set.records;
  take_columns();
  const auto rows = std::minmax_element(rows_.sources, rows_.sources + rows_.count);
  read_low_ += *rows.first + record_.source_low;
  read_high_ += *rows.second + record_.source_high;
  if (rows_.count < inner_rows_min && columns_.count > rows_.count) std::swap(rows_, columns_);
  return true;
}

bool BoxPlan::make_shuffle(const Kernels& set) {
  begin_lists();
  const std::int64_t pieces = std::max<std::int64_t>(1, std::ssize(pieces_));
  if (set.shuffle == nullptr || !dense_ || element_bytes_ >= 32 * pieces) return false;
  const std::int64_t most = 2 * shuffled_run_bytes / element_bytes_;
  for (int k = 0; is_dense_chain(k) && rows_.count * element_bytes_ < shuffled_run_bytes; ++k) {
    if (!rows_.take(left_[k], std::max<std::int64_t>(most, 2))) break;
  }
  const ShuffledRun run{
      element_bytes_, pieces_, {rows_.sources, static_cast<std::size_t>(rows_.count)}};
  if (!make_program(run, program_)) return false;
  method_ = Method::shuffle;
  shuffle_ = set.shuffle;
  take_columns();
  read_low_ += program_.source_low;
  read_high_ += program_.source_high;
  return true;
}

void BoxPlan::make_moves() {
  begin_lists();
  const bool dense = take_rows();
  take_columns();
  method_ = Method::moves;
  kernel_ = nullptr;
  if (dense && pieces_.empty() && rows_.count >= inner_rows_min) {
    kernel_ = wide_move_kernel(element_bytes_);
  }
  if (kernel_ != nullptr) {
    const auto rows = std::minmax_element(rows_.sources, rows_.sources + rows_.count);
    read_low_ += *rows.first;
    read_high_ += *rows.second + wide_move_bytes(element_bytes_);
  } else if (rows_.count < inner_rows_min && columns_.count > rows_.count) {
    std::swap(rows_, columns_);
  }
}

/// Takes the axes of the target's order as rows: those that form one run in the target, if any do;
/// returns whether they do.
bool BoxPlan::take_rows() {
  const bool dense = is_dense_chain(0);
  for (int k = 0; k < rank_ && (!dense || is_dense_chain(k)); ++k) {
    if (!rows_.take(left_[k])) break;
  }
  return dense;
}

/// Takes the axes that are left, in the order of their source strides, as columns.
void BoxPlan::take_columns() {
  columns_.reset();
  for (int n = 0; n < rank_; ++n) {
    Axis& axis = left_[by_source_[n]];
    if (axis.extent > 1) columns_.take(axis);
  }
  const auto ends = std::minmax_element(columns_.sources, columns_.sources + columns_.count);
  read_low_ = *ends.first;
  read_high_ = *ends.second;
}

void BoxPlan::leave_rest() {
  rest_rank_ = 0;
  for (int k = 0; k < rank_; ++k) {
    if (left_[k].extent > 1) rest_[rest_rank_++] = left_[k];
  }
}

bool BoxPlan::lies_within(const Grid& grid, MemoryRange readable) const {
  if (readable.low == nullptr) return true;
  return grid.source - readable.low >= -read_low_ && readable.high - grid.source >= read_high_;
}

void BoxPlan::move_pieces(const Grid& grid) const {
  if (pieces_.empty()) return move_kernel(element_bytes_)(grid);
  for (const ElementPiece& piece : pieces_) {
    Grid part = grid;
    part.source += piece.source;
    part.target += piece.target;
    part.element_bytes = piece.bytes;
    move_kernel(piece.bytes)(part);
  }
}

/// Copies parts of the grid after their source rows were copied side by side.
void BoxPlan::copy_packed(const Grid& grid, Prefetcher& next) const {
  constexpr std::int64_t pitch = packed_row_bytes + line_bytes;
  constexpr std::int64_t room = 16;  // what a wide move reads beyond the last row
  alignas(line_bytes) std::byte panel[packed_rows * pitch + room];
  std::int64_t pitches[packed_rows];
  for (std::int64_t k = 0; k < packed_rows; ++k) pitches[k] = k * pitch;
  const std::int64_t at_once = (packed_row_bytes - (row_high_ - row_low_)) / row_step_ + 1;
  Grid part = grid;
  part.source = panel - row_low_;
  part.row_sources = pitches;
  part.row_pitch = pitch;
  part.rows = std::min(packed_rows, grid.rows);
  part.columns = std::min(at_once, grid.columns);
  const auto bytes =
      static_cast<std::size_t>((part.columns - 1) * row_step_ + row_high_ - row_low_);
  for (std::int64_t i = 0; i < grid.rows; i += packed_rows) {
    i = std::min(i, grid.rows - part.rows);
    for (std::int64_t j = 0; j < grid.columns; j += at_once) {
      j = std::min(j, grid.columns - part.columns);
      const std::byte* source = grid.source + grid.column_sources[j] + row_low_;
      for (std::int64_t k = 0; k < part.rows; ++k) {
        const std::byte* row = source + grid.row_sources[i + k];
        if (bytes == packed_row_bytes) {
          std::memcpy(panel + k * pitch, row, packed_row_bytes);  // without a call
        } else {
          std::memcpy(panel + k * pitch, row, bytes);
        }
      }
      part.row_targets = grid.row_targets + i;
      part.column_targets = grid.column_targets + j;
      copy_parts(part, {nullptr, nullptr}, next);
    }
  }
}

/// Copies a grid part by part, and prefetches between them.
void BoxPlan::copy_parts(const Grid& grid, MemoryRange readable, Prefetcher& next) const {
  const std::int64_t rows = std::min(part_rows_, grid.rows);
  const std::int64_t columns = std::min(part_columns_, grid.columns);
  if (method_ == Method::interleave || (rows == grid.rows && columns == grid.columns)) {
    if (method_ != Method::interleave) next.keep_pace(grid.rows * grid.columns * element_bytes_);
    return copy_grid(grid, readable);
  }
  const bool overlaps = method_ == Method::squares;  // squares need whole parts
  Grid part = grid;
  for (std::int64_t i = 0; i < grid.rows; i += rows) {
    if (overlaps) i = std::min(i, grid.rows - rows);
    part.rows = std::min(rows, grid.rows - i);
    part.row_sources = grid.row_sources + i;
    part.row_targets = grid.row_targets + i;
    for (std::int64_t j = 0; j < grid.columns; j += columns) {
      if (overlaps) j = std::min(j, grid.columns - columns);
      part.columns = std::min(columns, grid.columns - j);
      part.column_sources = grid.column_sources + j;
      part.column_targets = grid.column_targets + j;
      next.keep_pace(part.rows * part.columns * element_bytes_);
      copy_grid(part, readable);
    }
  }
}

void BoxPlan::copy_grid(const Grid& grid, MemoryRange readable) const {
  switch (method_) {
    case Method::squares:
    case Method::interleave: return kernel_(grid);
    case Method::records:
      if (lies_within(grid, readable)) return record_kernel_(record_, grid);
      break;
    case Method::shuffle:
      if (lies_within(grid, readable)) return shuffle_(program_, grid);
      break;
    default:
      if (kernel_ != nullptr && lies_within(grid, readable)) return kernel_(grid);
      break;
  }
  move_pieces(grid);
}

void BoxPlan::copy(const std::byte* source, std::byte* target, MemoryRange readable,
                   Prefetcher& next) const {
  Grid grid{.element_bytes = element_bytes_,
            .source = source + source_shift_,
            .target = target + target_shift_,
            .rows = rows_.count,
            .row_sources = rows_.sources,
            .row_targets = rows_.targets,
            .columns = columns_.count,
            .column_sources = columns_.sources,
            .column_targets = columns_.targets,
            .row_pitch = row_pitch_,
            .column_pitch = column_pitch_,
            .even_targets = even_targets_};
  if (method_ == Method::interleave) {
    (grid.rows < grid.columns ? grid.columns : grid.rows) = records_;
  }
  std::int64_t index[2 * Shape::rank_max];
  std::fill(index, index + rest_rank_, 0);
  while (true) {
    if (packs_ && (method_ != Method::records || lies_within(grid, readable))) {
      copy_packed(grid, next);
    } else {
      copy_parts(grid, readable, next);
    }
    int k = 0;
    for (; k < rest_rank_; ++k) {
      const Axis& axis = rest_[k];
      grid.source += axis.source_stride;
      grid.target += axis.target_stride;
      if (++index[k] < axis.extent) break;
      index[k] = 0;
      grid.source -= axis.source_stride * axis.extent;
      grid.target -= axis.target_stride * axis.extent;
    }
    if (k == rest_rank_) return;
  }
}

void BoxCopier::copy(const Shape& box, Prefetcher& next) {
  if (!plans_[last_].suits(box)) {
    last_ = 1 - last_;
    if (!plans_[last_].suits(box)) plans_[last_].make(box, set_, repeats_);
  }
  plans_[last_].copy(box.source, box.target, readable_, next);
}

}  // namespace tranship::host
