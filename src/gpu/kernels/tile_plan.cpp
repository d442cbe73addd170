#include "gpu/kernels/tile_plan.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "base/check.hpp"
#include "gpu/kernels/kernel_plan.hpp"
#include "gpu/kernels/tile_body.hpp"
#include "gpu/kernels/tile_shape.hpp"

namespace tranship::gpu {
namespace {

/// Most rows of a tile along a loop outside its runs.
constexpr std::int64_t rows_max = 64;

/// Bytes of shared memory that hold where a row begins.
constexpr std::int64_t row_bytes = 8;

/// Plans a tile: first the unit, then the tile's extents, then the numbers that depend on both.
class TilePlanner {
 public:
  TilePlanner(const TileShape& shape, const KernelTuning& tuning)
      : shape_(shape),
        normal_(shape.normal()),
        element_(normal_.element_bytes),
        budget_(tuning.tile_bytes) {}

  /// Returns false if the tile does not fit a launch.
  bool plan(const std::byte* source, const std::byte* target, KernelPlan& result) {
    set_unit(source, target);
    if (unit_ < 4) budget_ = budget_ * 3 / 4;
    set_extents();
    set_loops();
    const std::int64_t blocks = set_rows_and_blocks();
    if (blocks >= std::int64_t{1} << 31) return false;
    set_divisors();
    set_offsets();
    const std::int64_t shared = set_shared();
    if (shared > shared_bytes_max) return false;
    result.kind = KernelKind::tile;
    result.element_bytes = static_cast<std::int32_t>(unit_);
    result.blocks = blocks;
    result.shared_bytes = static_cast<std::int32_t>(shared);
    result.source_offset = normal_.source_offset;
    result.target_offset = normal_.target_offset;
    result.tile = tile_;
    return true;
  }

 private:
  void set_unit(const std::byte* source, const std::byte* target) {
    std::int64_t unit_bits = element_ | address_bits(source, normal_.source_offset) |
                             address_bits(target, normal_.target_offset);
    std::int64_t target_bits = address_bits(target, normal_.target_offset);
    for (std::size_t k = 0; k < normal_.loops.size(); ++k) {
      const Loop& loop = normal_.loops[k];
      unit_bits |= loop.source_stride | loop.target_stride;
      if (std::count(shape_.in_p.begin(), shape_.in_p.end(), k) == 0) {
        target_bits |= loop.target_stride;
      }
    }
    unit_ = common_bytes(unit_bits);
    word_ = std::max<std::int64_t>(unit_, 4);
    margin_bytes_ = sector_bytes - lowest_bit(target_bits, sector_bytes);
    tile_.element_bytes = static_cast<std::int32_t>(element_);
    tile_.source_bytes = static_cast<std::int32_t>(element_);
    tile_.parts = make_divisor(element_ / unit_);
    tile_.step_q = shape_.step_q;
  }

  /// Returns the bytes from row to row in shared memory: an odd number of words.
  std::int64_t pitch_of(std::int64_t columns) const {
    const std::int64_t bytes = (columns - 1) * shape_.step_q + element_;
    return (ceil_divide(bytes, word_) | 1) * word_;
  }

  /// Returns the columns of a tile: as wished, more if it has few rows, and evenly divided.
  std::int64_t columns_for(std::int64_t held) const {
    constexpr std::int64_t run_bytes_most = 1024;
    std::int64_t columns =
        std::clamp<std::int64_t>(shape_.wished_q() / shape_.step_q, 1, shape_.count_q);
    while (columns < shape_.count_q && columns * shape_.step_q < run_bytes_most &&
           held * pitch_of(std::min(2 * columns, shape_.count_q)) <= budget_) {
      columns = std::min(2 * columns, shape_.count_q);
    }
    columns = ceil_divide(shape_.count_q, ceil_divide(shape_.count_q, columns));
    while (held * pitch_of(columns) > shared_bytes_max * 3 / 4 && columns > 1) columns /= 2;
    return columns;
  }

  /// Sets the tile's extents: as wished, longer where the other side has less, and even.
  void set_extents() {
    constexpr std::int64_t sector = sector_bytes;
    const std::int64_t margin = ceil_divide(margin_bytes_, element_);
    const std::int64_t step = sector / std::gcd(element_, sector);
    std::int64_t rows = std::max<std::int64_t>(round_up(shape_.wished_p() / element_, step), step);
    const bool few_rows = shape_.count_p <= rows + margin;
    const std::int64_t columns = columns_for(few_rows ? shape_.count_p : rows + margin);
    if (!few_rows) {
      const std::int64_t fit = budget_ / pitch_of(columns);
      const std::int64_t most = std::max(rows, (fit - margin) / step * step);
      rows = std::min(most, 4 * rows);
      if (shape_.count_p <= rows + margin) {
        rows = shape_.count_p;
      } else {
        const std::int64_t all = shape_.count_p + margin;
        rows = std::min(rows, round_up(ceil_divide(all, ceil_divide(all, rows)), step));
      }
    }
    const bool one_tile = shape_.count_p <= rows + margin && (few_rows || rows == shape_.count_p);
    if (one_tile) rows = shape_.count_p;
    tile_.margin = one_tile ? 0 : static_cast<std::int32_t>(margin);
    tile_.tile_p = static_cast<std::int32_t>(rows);
    tile_.rows_p = static_cast<std::int32_t>(one_tile ? rows : rows + margin);
    tile_.count_p = static_cast<std::int32_t>(shape_.count_p);
    tile_.count_q = static_cast<std::int32_t>(shape_.count_q);
    tile_.tile_q = static_cast<std::int32_t>(columns);
    tile_.pitch = static_cast<std::int32_t>(pitch_of(columns));
    if (element_ > unit_) tile_.kind = TileKind::elements;
    if (one_tile && columns > 1 && shape_.joins_along_q()) {
      tile_.kind = TileKind::joined;
    }
    tile_.joined_step = static_cast<std::int32_t>(shape_.step_q - shape_.count_p * tile_.pitch);
    const std::int64_t run_bytes = rows * element_ + (one_tile ? margin_bytes_ : 0);
    tile_.row_vectors = static_cast<std::int32_t>(ceil_divide(run_bytes, vector_bytes_max));
    tiles_p_ =
        one_tile ? 1 : ceil_divide(shape_.count_p * element_ + margin_bytes_, rows * element_);
    tile_.tiles_p = make_divisor(tiles_p_);
    tile_.tiles_q = make_divisor(ceil_divide(shape_.count_q, columns));
  }

  std::int32_t copy_loops(const std::vector<std::size_t>& from, TileLoop* to) const {
    for (std::size_t k = 0; k < from.size(); ++k) {
      const Loop& loop = normal_.loops[from[k]];
      to[k] = {make_divisor(loop.extent), loop.source_stride, loop.target_stride};
    }
    return static_cast<std::int32_t>(from.size());
  }

  void set_loops() {
    tile_.rank_p = copy_loops(shape_.in_p, tile_.loops_p);
    tile_.rank_q = copy_loops(shape_.in_q, tile_.loops_q);
    const int along = shape_.rows_loop();
    std::vector<std::size_t> outer;
    for (std::size_t k = 0; k < normal_.loops.size(); ++k) {
      if (!shape_.taken(k) && static_cast<int>(k) != along) outer.push_back(k);
    }
    tile_.outer_rank = copy_loops(outer, tile_.outer);
    if (along < 0) return;
    const Loop& loop = normal_.loops[static_cast<std::size_t>(along)];
    tile_.count_r = static_cast<std::int32_t>(loop.extent);
    tile_.source_stride_r = loop.source_stride;
    tile_.target_stride_r = loop.target_stride;
  }

  /// Returns the most rows along the loop outside the runs.
  std::int64_t most_rows() const {
    const std::int64_t bytes = std::int64_t{tile_.rows_p} * tile_.pitch;
    return std::clamp<std::int64_t>(budget_ / bytes, 1, rows_max);
  }

  /// Sets the rows along the loop outside the runs. Returns the number of blocks.
  std::int64_t set_rows_and_blocks() {
    const std::int64_t rows = std::min(most_rows(), std::int64_t{tile_.count_r});
    const std::int64_t tiles = ceil_divide(tile_.count_r, rows);
    tile_.tile_r = static_cast<std::int32_t>(ceil_divide(tile_.count_r, tiles));
    const std::int64_t tiles_r = ceil_divide(tile_.count_r, tile_.tile_r);
    tile_.tiles_r = make_divisor(tiles_r);
    std::int64_t blocks = tiles_p_ * tile_.tiles_q.divisor * tiles_r;
    for (int k = 0; k < tile_.outer_rank; ++k) blocks *= tile_.outer[k].extent.divisor;
    return blocks;
  }

  void set_divisors() {
    tile_.held_rows = make_divisor(tile_.rows_p);
    tile_.columns = make_divisor(tile_.tile_q);
    tile_.target_rows = make_divisor(std::int64_t{tile_.tile_q} * tile_.tile_r);
    const std::int64_t bytes = (tile_.tile_q - 1) * shape_.step_q + element_;
    tile_.row_words = make_divisor(ceil_divide(bytes, unit_ < 4 ? vector_bytes_max : unit_));
  }

  void set_offsets() {
    tile_.source_offset = normal_.source_offset;
    tile_.target_offset = normal_.target_offset;
    tile_.source_high = normal_.source_offset + element_;
    for (const Loop& loop : normal_.loops) {
      const std::int64_t reach = (loop.extent - 1) * loop.source_stride;
      if (reach > 0) tile_.source_high += reach;
    }
  }

  /// Lays out shared memory: the rows and their offsets. Returns its bytes.
  std::int64_t set_shared() {
    const std::int64_t rows = std::int64_t{tile_.rows_p} * tile_.tile_r;
    const std::int64_t rows_at = round_up(rows * tile_.pitch, 16);
    const std::int64_t end =
        rows_at + row_bytes * (rows + std::int64_t{tile_.tile_q} * tile_.tile_r);
    tile_.rows_at = static_cast<std::int32_t>(rows_at);
    return end;
  }

  const TileShape& shape_;
  const NormalNest& normal_;
  std::int64_t element_;
  std::int64_t budget_;
  TilePlan tile_;
  std::int64_t unit_ = 1;
  std::int64_t word_ = 4;
  std::int64_t margin_bytes_ = 0;
  std::int64_t tiles_p_ = 1;
};

}  // namespace

bool plan_tile(const NormalNest& normal, const std::byte* source, const std::byte* target,
               const KernelTuning& tuning, std::vector<KernelPlan>& plans) {
  if (normal.loops.size() > kernel_loops_max) return false;
  TileShape shape(normal, tuning);
  KernelPlan plan;
  if (!shape.choose_runs() || !TilePlanner(shape, tuning).plan(source, target, plan)) {
    return false;
  }
  plans.push_back(plan);
  return true;
}

std::string explain_tile(const KernelPlan& plan) {
  const TilePlan& tile = plan.tile;
  const std::string elements = "elements of " + std::to_string(tile.element_bytes) + " bytes";
  return "tile of " + std::to_string(tile.tile_p) + " x " + std::to_string(tile.tile_q) + " x " +
         std::to_string(tile.tile_r) + " " + elements + " in units of " +
         std::to_string(plan.element_bytes) + ", margin " + std::to_string(tile.margin) +
         (tile.kind == TileKind::joined ? ", joined, " : ", ") + std::to_string(plan.blocks) +
         " blocks";
}

}  // namespace tranship::gpu
