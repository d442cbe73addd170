// Which kernel carries a loop nest on a GPU, decided on the host and passed to the kernel by value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "data/loop_nest.hpp"

namespace tranship::cuda {

/// How a kernel walks the nest.
enum class KernelKind : std::int32_t {
  rows,      ///< runs that are contiguous on both sides, in vectors of up to 16 bytes
  box,       ///< a box of the nest passes through shared memory: long runs on either side
  elements,  ///< one element a thread, in the target's order
};

/// Division by a number that is known on the host, as a multiplication; exact below 2^31.
struct Divisor {
  std::uint32_t divisor = 1;
  std::uint32_t multiplier = 0;
  std::uint32_t shift = 0;
};

constexpr int kernel_loops_max = 8;
constexpr int box_loops_max = 4;
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

/// One launch. A value of a few hundred bytes; addresses are given at the launch.
struct KernelPlan {
  KernelKind kind = KernelKind::elements;
  std::int32_t element_bytes = 1;        ///< moved by one access of the innermost step
  std::int32_t source_vector_bytes = 1;  ///< of one access to global memory at the source
  std::int32_t target_vector_bytes = 1;
  std::int32_t rank = 0;
  std::int32_t box_rank = 0;  ///< loops of more than one index in a box; they come first
  std::int32_t source_rank = 0;
  std::int32_t box_elements = 1;
  bool straddles = false;  ///< a vector at the target may hold indices of several loops
  /// Bytes in shared memory between the elements of a vector of the target; 0: not always the same.
  std::int32_t shared_step = 0;
  std::int64_t source_offset = 0;
  std::int64_t target_offset = 0;
  Loop loops[kernel_loops_max];             ///< of a box first; then fastest in the target first
  std::int32_t box[kernel_loops_max] = {};  ///< indices of each loop in a box
  Divisor boxes[kernel_loops_max];          ///< boxes along each loop
  SourceStep source_steps[box_loops_max];   ///< fastest in the source first
  TargetStep target_steps[box_loops_max];   ///< of loops[0], loops[1], ...
  std::int64_t blocks = 0;                  ///< of the launch
  std::int32_t threads = kernel_threads;    ///< of a block
  std::int32_t shared_bytes = 0;
};

/// What was found by measuring, and what a benchmark varies.
struct KernelTuning {
  /// What a block moves: larger for longer runs, smaller for more blocks on a multiprocessor.
  std::int64_t box_bytes = 16384;
  /// Neighbouring blocks go over so many boxes along the target's fastest loop before they go on
  /// along the next one; 0: over all. It applies where the boxes divide the loop.
  std::int64_t group_boxes = 0;
};

/// Appends what carries `nest` between two addresses: usually one plan, several if the nest has
/// more loops than a kernel walks. Only the alignment of the addresses counts.
void plan_kernels(const LoopNest& nest, const std::byte* source, const std::byte* target,
                  std::vector<KernelPlan>& plans, const KernelTuning& tuning = {});

/// Such as "box of 64 x 32 elements of 4 bytes, 16-byte reads, 16-byte writes".
std::string explain(const KernelPlan& plan);

/// A contiguous run, for lists of them.
struct Piece {
  std::int64_t source_offset = 0;
  std::int64_t target_offset = 0;
  std::int64_t bytes = 0;
};

}  // namespace tranship::cuda
