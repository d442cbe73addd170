// The plan of a loop nest for a GPU: chosen on the host, and passed to the kernel by value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/loop_nest.hpp"
#include "data/run.hpp"

namespace tranship::gpu {

/// How a kernel walks the nest.
enum class KernelKind : std::int32_t {
  rows,      ///< runs that are contiguous on both sides, in vectors of up to 16 bytes
  shifted,   ///< runs at any alignment: a target vector combines two source vectors
  box,       ///< a box of the nest passes through shared memory: long runs on either side
  elements,  ///< one element a thread, in the target's order
  records,   ///< a box of whole records passes through shared memory, to or from runs of fields
  tile,      ///< long source runs by long target runs pass through shared memory, at any alignment
  table,     ///< source rows pass through shared memory; a table says where target units lie there
};

/// Division by a number that is known on the host, as a multiplication; exact below 2^31.
struct Divisor {
  std::uint32_t divisor = 1;
  std::uint32_t multiplier = 0;
  std::uint32_t shift = 0;
};

constexpr int kernel_loops_max = 8;
constexpr int box_loops_max = 4;
constexpr int box_rows_max = 1024;
constexpr int kernel_threads = 256;

/// A step through a box in the source's order; loops that continue each other there are merged.
struct SourceStep {
  Divisor extent;           ///< extent of the merged loops in a box
  std::int64_t stride = 0;  ///< bytes
  std::int32_t cut = 0;     ///< the loop, of those merged, that an edge may cut
  std::int32_t factor = 1;  ///< elements of this step for each index of that loop
};

/// A step through a box in the target's order: one loop of the box.
struct TargetStep {
  Divisor extent;
  std::int32_t shared_stride = 0;  ///< elements, in the source's order
  std::int32_t shared_carry = 0;   ///< from the end of this loop to the next index of the next loop
};

/// The parameters of the kernels of one nest.
struct NestPlan {
  KernelKind kind = KernelKind::elements;
  std::int32_t element_bytes = 1;        ///< moved by one access of the innermost step
  std::int32_t source_vector_bytes = 1;  ///< bytes of one access to global memory at the source
  std::int32_t target_vector_bytes = 1;
  std::int32_t rank = 0;
  /// Number of loops of more than one index in a box, which come first; at most box_loops_max for
  /// boxes that pass through shared memory.
  std::int32_t box_rank = 0;
  std::int32_t source_rank = 0;
  std::int32_t box_elements = 1;
  bool straddles = false;  ///< a vector at the target may hold indices of several loops
  /// Bytes in shared memory between the elements of a target vector; 0: not constant.
  std::int32_t shared_step = 0;
  std::int64_t source_offset = 0;
  std::int64_t target_offset = 0;
  Loop loops[kernel_loops_max];               ///< the box's first; each group by target stride
  std::int32_t box[kernel_loops_max] = {};    ///< indices of each loop in a box
  Divisor boxes[kernel_loops_max];            ///< boxes along each loop
  SourceStep source_steps[box_loops_max];     ///< fastest in the source first
  TargetStep target_steps[kernel_loops_max];  ///< steps of loops[0], loops[1], ...
  std::int64_t blocks = 0;                    ///< blocks of the launch
  std::int32_t threads = kernel_threads;      ///< threads of a block
  std::int32_t shared_bytes = 0;
  std::int32_t rows = 1;        ///< rows of a box without shared memory: product of loops 1, 2, ...
  std::int32_t inner_rows = 1;  ///< rows for each index of the box's last loop
  /// KernelKind::shifted alone: loop 0 counts the vectors of a run of `run_bytes` bytes; the source
  /// is read between `source_low` and `source_high`.
  std::int64_t run_bytes = 0;
  std::int64_t source_low = 0;
  std::int64_t source_high = 0;
};

constexpr int record_fields_max = 16;

/// A field of records: its elements lie in records on one side, and in runs on the other.
struct RecordField {
  std::int32_t bytes = 0;          ///< bytes of one element
  std::int32_t unit_bytes = 1;     ///< bytes of one access; divides `bytes`
  Divisor units;                   ///< units of one element
  std::int32_t run_vectors = 0;    ///< vectors that one run of a box reaches into; an even number
  std::int32_t record_offset = 0;  ///< bytes from the record's beginning
  std::int32_t chunks = 0;         ///< chunks of 32 vectors in a box
  std::int64_t column_offset = 0;
  std::int64_t column_strides[kernel_loops_max] = {};
};

/// Parameters of a kernel for records. Records are loop 0: they follow each other at
/// `record_bytes`. The runs of a field go along loop 0 as well, or (`across`) along loop 1. A box
/// holds rows of records as they lie in memory.
struct RecordsPlan {
  bool to_columns = false;  ///< the records are the source
  bool across = false;
  std::int32_t fields_count = 0;
  std::int32_t rank = 0;
  std::int32_t record_bytes = 0;  ///< from one record to the next
  std::int32_t record_span = 0;   ///< from the first field's beginning to the last one's end
  std::int32_t box[2] = {1, 1};   ///< indices of the loops 0 and 1
  /// Indices that a box reads before its own, so that writes to columns begin at multiples of a
  /// sector.
  std::int32_t margin = 0;
  std::int32_t pitch_bytes = 0;  ///< bytes from row to row in shared memory
  std::int32_t chunks = 0;       ///< chunks of all fields
  Divisor row_vectors;           ///< vectors that a row of a box reaches into
  Divisor runs;                  ///< runs of one field in a box
  std::int64_t record_offset = 0;
  std::int64_t extents[kernel_loops_max] = {};
  std::int64_t record_strides[kernel_loops_max] = {};
  Divisor boxes[kernel_loops_max];
  RecordField fields[record_fields_max];
};

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

/// The plan of one launch: a value of a few kilobytes; addresses are given at the launch. A kernel
/// gets only the part that it needs.
struct KernelPlan : NestPlan {
  RecordsPlan records;
  TilePlan tile;
  TablePlan table;
};

/// Tuning parameters, whose defaults were found by measuring, and which a benchmark varies.
struct KernelTuning {
  /// Bytes that a block moves: larger for longer runs, smaller for more blocks on a multiprocessor.
  std::int64_t box_bytes = 16384;
  /// Bytes that a block moves without shared memory, if there are enough blocks.
  std::int64_t direct_box_bytes = 32768;
  /// Two blocks for each multiprocessor of a large GPU: of nests with fewer boxes of `box_bytes`
  /// (or `direct_box_bytes`, if that is less), boxes are cut until there are as many, but at most
  /// to one access for each thread, or to `short_box_bytes` if they pass through shared memory.
  std::int64_t short_blocks = 264;
  std::int64_t short_box_bytes = 4096;
  /// Most accesses of a list that is one launch, whatever its widths and alignments are: fewer wide
  /// accesses gain less than a second launch costs.
  std::int64_t short_list_accesses = 262144;
  /// Number of boxes along the target's fastest loop that neighbouring blocks visit before they go
  /// on along the next loop; 0: all. Applies where the boxes divide the loop.
  std::int64_t group_boxes = 0;
  /// Whether nests share a launch: then none passes through shared memory without need, and all
  /// accesses are as narrow as the narrowest.
  bool in_list = false;
  std::int64_t list_bytes = 0;  ///< bytes of all nests of a list
  /// Smallest run, in bytes, that is shifted instead of being moved in narrow units; 32 bytes more
  /// for each byte of a unit.
  std::int64_t shifted_run_bytes = 48;
  std::int64_t shifted_rows = 128;  ///< most rows of a box
  std::int64_t element_bytes_max = 16;
  std::int64_t band_nests = 64;  ///< most nests of a band
  /// Whether transposes are moved in tiles: 0 never, 1 where they are faster, 2 in plain ones where
  /// possible, 3 in table tiles where possible.
  std::int64_t tiles = 1;
  /// Fewest bytes for which it pays to look for the best tile, which takes some 10 µs on the host.
  std::int64_t tiled_bytes = 131072;
  std::int64_t tile_bytes = 28672;  ///< bytes of a tile, a quarter less of narrow units
  /// Blocks that a large GPU needs to be busy: table tiles are smaller for fewer bytes.
  std::int64_t tile_blocks = 1024;
  std::int64_t tile_target_bytes = 0;  ///< wished target run of a tile; 0: by the element's width
  std::int64_t tile_source_bytes = 128;
};

/// Appends the plans that carry `nest` between two addresses: usually one, several if the nest has
/// more loops than a kernel walks. Of the addresses, only the alignment matters.
void plan_kernels(const LoopNest& nest, const std::byte* source, const std::byte* target,
                  std::vector<KernelPlan>& plans, const KernelTuning& tuning = {});

/// Appends one plan for nests that are the fields of the same records. Returns false, with nothing
/// appended, if they are not; then each nest is planned alone.
bool plan_fields(std::span<const LoopNest> nests, const std::byte* source, const std::byte* target,
                 std::vector<KernelPlan>& plans, const KernelTuning& tuning = {});

/// Appends the plans of nests that are carried together: as fields of records, or each alone.
void plan_kernels(std::span<const LoopNest> nests, const std::byte* source, const std::byte* target,
                  std::vector<KernelPlan>& plans, const KernelTuning& tuning = {});

/// Describes a plan, such as "box of 64 x 32 elements of 4 bytes, 16-byte reads, 16-byte writes".
std::string explain(const KernelPlan& plan);

/// Runs, as a table of two numbers for each: first those of all sources, then those of all targets.
/// A run begins `offset + number * step` bytes from its side's address. If runs differ in length,
/// the lengths follow, in units of `length_step` bytes.
struct RunTable {
  const std::uint32_t* numbers = nullptr;
  std::int64_t count = 0;
  std::int64_t bytes = 0;  ///< of each run; 0: they differ
  std::int64_t length_step = 1;
  std::int64_t source_offset = 0;
  std::int64_t target_offset = 0;
  std::int64_t source_step = 1;
  std::int64_t target_step = 1;
};

}  // namespace tranship::gpu
