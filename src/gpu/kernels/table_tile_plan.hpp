// Plans for boxes of any loops, in which a table says where the units of a target run lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpu/kernels/nest_plan.hpp"

namespace tranship::gpu {

struct KernelPlan;
struct KernelTuning;
struct NormalNest;

/// Which loop decides how long the source rows of a table tile are.
enum class RowGrows : std::int32_t {
  not_at_all,  ///< none: all are whole
  along,       ///< positions p
  across,      ///< the last loop of the positions q
};

constexpr int table_units_max = 512;
constexpr std::uint16_t table_gap = 0xffff;

/// Parameters of a kernel for table tiles, beside a TilePlan. A target run consists of periods of
/// equal form; positions p of the tile are periods. A table says where the units of a period lie in
/// shared memory, so that the loops within it may go anywhere in the source: along source rows, or
/// from row to row (`TilePlan::loops_p`). Bytes and strides below are those of shared memory.
struct TablePlan {
  bool along_rows = false;  ///< positions p follow each other within source rows
  bool by_rows = false;     ///< each position p has source rows of its own
  bool overlaps = false;    ///< runs are cut at the target's sectors, and the tile has a margin
  bool in_pieces = false;   ///< the target is written piece by piece, not in whole vectors
  RowGrows row_grows = RowGrows::not_at_all;
  Divisor period;                    ///< units of a period, gaps included
  std::int64_t last_unit = 0;        ///< units of a whole target run
  std::int32_t period_step = 0;      ///< bytes from position to position
  std::int64_t source_stride_p = 0;  ///< of positions p, in the source
  Divisor rows_in;                   ///< source rows of one position p
  Divisor inner_q;                   ///< positions q for each index of their last loop
  Divisor pieces;                    ///< pieces of a period
  Divisor run_pieces;                ///< pieces of a tile's target run
  std::int32_t bases_at = 0;         ///< where each target run begins among the rows
  std::int32_t table_at = 0;         ///< the table of one period
  std::int32_t wide_at = 0;          ///< the table of a period and as many units as a vector has
  std::int32_t moves_at = 0;         ///< which units from each one on are no gaps; 0: no gaps
  /// Added to the entries, and subtracted again: positions p that go backwards along a source row
  /// would make them negative.
  std::int32_t entry_bias = 0;
  std::int32_t entries = 0;
  /// For each unit of a period where it lies, or `table_gap`: it is not written. Or the pieces of a
  /// period, in two entries each (table_tile_body.hpp).
  std::uint16_t entry[table_units_max] = {};
};

/// Appends one plan for nests that have the same loops, such as the fields of records, or for one
/// nest. Returns false, with nothing appended, if no box of theirs fits a block.
bool plan_table_tile(std::span<const NormalNest> normals, const std::byte* source,
                     const std::byte* target, const KernelTuning& tuning,
                     std::vector<KernelPlan>& plans);

std::string explain_table_tile(const KernelPlan& plan);

}  // namespace tranship::gpu
