// The plan of a loop nest for a GPU whose boxes are walked loop by loop.
#pragma once

#include <cstdint>

#include "data/loop_nest.hpp"

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

}  // namespace tranship::gpu
