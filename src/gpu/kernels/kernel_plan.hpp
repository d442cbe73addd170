// Which kernel carries a loop nest on a GPU, decided on the host and passed to the kernel by value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/loop_nest.hpp"

namespace tranship::gpu {

/// How a kernel walks the nest.
enum class KernelKind : std::int32_t {
  rows,      ///< runs that are contiguous on both sides, in vectors of up to 16 bytes
  shifted,   ///< the same at any alignment: vectors of the target are put together of two
  box,       ///< a box of the nest passes through shared memory: long runs on either side
  elements,  ///< one element a thread, in the target's order
  records,   ///< a box of whole records passes through shared memory, to or from runs of fields
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

/// A step through a box in the source's order: loops that follow each other there are one.
struct SourceStep {
  Divisor extent;           ///< of the merged loops in a box
  std::int64_t stride = 0;  ///< bytes
  std::int32_t cut = 0;     ///< the one of the merged loops that an edge may cut
  std::int32_t factor = 1;  ///< elements of this step that an index of that loop stands for
};

/// A step through a box in the target's order: one loop.
struct TargetStep {
  Divisor extent;
  std::int32_t shared_stride = 0;  ///< elements, in the order of the source
  std::int32_t shared_carry = 0;   ///< from the last index of this loop to the next loop's next
};

/// What the kernels of one nest need.
struct NestPlan {
  KernelKind kind = KernelKind::elements;
  std::int32_t element_bytes = 1;        ///< moved by one access of the innermost step
  std::int32_t source_vector_bytes = 1;  ///< of one access to global memory at the source
  std::int32_t target_vector_bytes = 1;
  std::int32_t rank = 0;
  /// Loops of more than one index in a box; they come first. Boxes that pass through shared memory
  /// have box_loops_max at most.
  std::int32_t box_rank = 0;
  std::int32_t source_rank = 0;
  std::int32_t box_elements = 1;
  bool straddles = false;  ///< a vector at the target may hold indices of several loops
  /// Bytes in shared memory between the elements of a vector of the target; 0: not always the same.
  std::int32_t shared_step = 0;
  std::int64_t source_offset = 0;
  std::int64_t target_offset = 0;
  Loop loops[kernel_loops_max];               ///< of a box first; then fastest in the target first
  std::int32_t box[kernel_loops_max] = {};    ///< indices of each loop in a box
  Divisor boxes[kernel_loops_max];            ///< boxes along each loop
  SourceStep source_steps[box_loops_max];     ///< fastest in the source first
  TargetStep target_steps[kernel_loops_max];  ///< of loops[0], loops[1], ...
  std::int64_t blocks = 0;                    ///< of the launch
  std::int32_t threads = kernel_threads;      ///< of a block
  std::int32_t shared_bytes = 0;
  std::int32_t rows = 1;  ///< of a box that needs no shared memory: of its loops but the first
  std::int32_t inner_rows = 1;  ///< for each index of its last loop
  /// KernelKind::shifted alone: loop 0 counts the vectors of a run, which has so many bytes; the
  /// source lies between two bytes.
  std::int64_t run_bytes = 0;
  std::int64_t source_low = 0;
  std::int64_t source_high = 0;
};

constexpr int record_fields_max = 16;
constexpr int shuffle_units_max = 512;
constexpr std::uint16_t shuffle_gap = 0xffff;

/// A field of records that lie together on one side, and in runs of their own on the other.
struct RecordField {
  std::int32_t bytes = 0;          ///< of one element
  std::int32_t unit_bytes = 1;     ///< moved by one access; divides the element
  Divisor units;                   ///< of one element
  std::int32_t run_vectors = 0;    ///< that one run of a box reaches into; an even number
  std::int32_t record_offset = 0;  ///< from the record's beginning
  std::int32_t chunks = 0;         ///< of 32 vectors that a box has
  std::int64_t column_offset = 0;
  std::int64_t column_strides[kernel_loops_max] = {};
};

/// Records are the loop 0: they follow each other at `record_bytes`. The runs of a field go along
/// loop 0 as well, or (`across`) along loop 1. A box holds rows of records as they lie in memory.
struct RecordsPlan {
  bool to_columns = false;  ///< the records are the source
  bool across = false;
  std::int32_t fields_count = 0;
  std::int32_t rank = 0;
  std::int32_t record_bytes = 0;  ///< from one record to the next
  std::int32_t record_span = 0;   ///< from the first field's beginning to the last one's end
  std::int32_t box[2] = {1, 1};   ///< indices of the loops 0 and 1
  /// Writes to columns begin at multiples of a sector: a box reads so many indices before its own.
  std::int32_t margin = 0;
  std::int32_t pitch_bytes = 0;  ///< of a row in shared memory
  std::int32_t chunks = 0;       ///< of all fields
  Divisor row_vectors;           ///< that a row of a box reaches into
  Divisor runs;                  ///< of one field in a box
  std::int64_t record_offset = 0;
  std::int64_t extents[kernel_loops_max] = {};
  std::int64_t record_strides[kernel_loops_max] = {};
  Divisor boxes[kernel_loops_max];
  RecordField fields[record_fields_max];
  /// Records to records: one field that is the whole record of the target, and for each unit of it
  /// the byte of the source's record that it comes from, or `shuffle_gap`: it is left alone.
  bool shuffled = false;
  std::int32_t table_at = 0;  ///< in shared memory
  std::uint16_t table[shuffle_units_max] = {};
};

/// One launch: a value of a few kilobytes; addresses are given at the launch. Kernels get the one
/// part that they need.
struct KernelPlan : NestPlan {
  RecordsPlan records;
};

/// What was found by measuring, and what a benchmark varies.
struct KernelTuning {
  /// What a block moves: larger for longer runs, smaller for more blocks on a multiprocessor.
  std::int64_t box_bytes = 16384;
  /// The same where nothing passes through shared memory, if there are blocks enough.
  std::int64_t direct_box_bytes = 32768;
  /// Neighbouring blocks go over so many boxes along the target's fastest loop before they go on
  /// along the next one; 0: over all. It applies where the boxes divide the loop.
  std::int64_t group_boxes = 0;
  /// Nests that share a launch: none of them goes through shared memory that need not, and accesses
  /// are as narrow as the narrowest of them needs.
  bool in_list = false;
  std::int64_t list_bytes = 0;  ///< that they move together
  /// Runs that only narrow units could move are shifted if they have so many bytes, and 32 more for
  /// each byte of a unit.
  std::int64_t shifted_run_bytes = 48;
  std::int64_t shifted_rows = 128;  ///< of a box, at most
  std::int64_t element_bytes_max = 16;
  std::int64_t band_nests = 64;  ///< of a list, at most
};

/// Appends what carries `nest` between two addresses: usually one plan, several if the nest has
/// more loops than a kernel walks. Only the alignment of the addresses counts.
void plan_kernels(const LoopNest& nest, const std::byte* source, const std::byte* target,
                  std::vector<KernelPlan>& plans, const KernelTuning& tuning = {});

/// Appends one plan for nests that are the fields of the same records. False, with nothing
/// appended: they are not, and each is planned alone.
bool plan_fields(std::span<const LoopNest> nests, const std::byte* source, const std::byte* target,
                 std::vector<KernelPlan>& plans, const KernelTuning& tuning = {});

/// The same for nests that are carried together, however they are.
void plan_kernels(std::span<const LoopNest> nests, const std::byte* source, const std::byte* target,
                  std::vector<KernelPlan>& plans, const KernelTuning& tuning = {});

/// Such as "box of 64 x 32 elements of 4 bytes, 16-byte reads, 16-byte writes".
std::string explain(const KernelPlan& plan);

/// A contiguous run, for lists of them.
struct Piece {
  std::int64_t source_offset = 0;
  std::int64_t target_offset = 0;
  std::int64_t bytes = 0;
};

}  // namespace tranship::gpu
