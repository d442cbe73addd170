// Plans for transposes of any shape: tiles of long source runs by long target runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu/kernels/nest_plan.hpp"

namespace tranship::gpu {

struct KernelPlan;
struct KernelTuning;
struct NormalNest;

constexpr int tile_loops_max = 4;

/// What the target runs of a tile consist of.
enum class TileKind : std::int32_t {
  units,     ///< elements that one access moves
  elements,  ///< elements of several units
  joined,    ///< elements of several units; a tile holds whole runs that follow each other along q
};

/// A loop of the nest, as a kernel for tiles counts it.
struct TileLoop {
  Divisor extent;
  std::int64_t source_stride = 0;
  std::int64_t target_stride = 0;
};

/// Parameters of a kernel for tiles. Positions p go along a target run, positions q along a source
/// run; each may go over several loops that continue each other on that side. Rows may go along
/// one loop r more. All other loops are outside of the tile.
struct TilePlan {
  TileKind kind = TileKind::units;
  std::int32_t element_bytes = 1;  ///< bytes of an element in the target, up to the next one
  std::int32_t source_bytes = 1;   ///< bytes of an element in the source
  Divisor parts;                   ///< units of an element
  std::int32_t rank_p = 0;
  std::int32_t rank_q = 0;
  std::int32_t outer_rank = 0;
  std::int32_t count_p = 1;  ///< positions of a whole run
  std::int32_t count_q = 1;
  std::int32_t count_r = 1;
  std::int32_t tile_p = 1;  ///< positions that a tile writes
  std::int32_t tile_q = 1;
  std::int32_t tile_r = 1;
  std::int32_t margin = 0;       ///< positions that a tile holds before those
  std::int32_t rows_p = 1;       ///< positions that a tile holds; source rows of a table tile
  std::int32_t row_vectors = 1;  ///< vectors that a tile's target run reaches into
  std::int32_t joined_step = 0;  ///< bytes in shared memory from the end of a run to the next
  std::int32_t pitch = 0;        ///< bytes from source row to source row in shared memory
  std::int32_t rows_at = 0;      ///< byte in shared memory of the rows' offsets
  std::int64_t step_q = 0;       ///< bytes from position to position in a source run
  std::int64_t source_stride_r = 0;
  std::int64_t target_stride_r = 0;
  std::int64_t source_offset = 0;
  std::int64_t target_offset = 0;
  std::int64_t source_high = 0;  ///< no byte is read from this offset on
  Divisor tiles_p;
  Divisor tiles_q;
  Divisor tiles_r;
  Divisor held_rows;    ///< rows_p
  Divisor columns;      ///< tile_q
  Divisor target_rows;  ///< tile_q * tile_r
  Divisor row_words;    ///< words of a tile's source run
  TileLoop loops_p[tile_loops_max];
  TileLoop loops_q[tile_loops_max];
  TileLoop outer[kernel_loops_max];
};

/// Appends one plan for a nest whose two sides go along different loops. Returns false, with
/// nothing appended, if they go along the same one, or if tiles are of no use.
bool plan_tile(const NormalNest& normal, const std::byte* source, const std::byte* target,
               const KernelTuning& tuning, std::vector<KernelPlan>& plans);

std::string explain_tile(const KernelPlan& plan);

}  // namespace tranship::gpu
