// Copies of grids element by element, without any assumption about offsets or alignment.
#pragma once

#include "channels/host/kernels.hpp"

namespace tranship::host {

/// Returns the kernel that copies elements of `element_bytes`: one after the other along the rows.
GridKernel move_kernel(std::int64_t element_bytes);

/// One loop over elements that are equally far apart on both sides.
struct MoveLoop {
  std::int64_t element_bytes;
  std::int64_t extent;
  std::int64_t source_stride;
  std::int64_t target_stride;
};
using LoopKernel = void (*)(const MoveLoop& loop, const std::byte* source, std::byte* target);

/// Returns the kernel that copies elements of `element_bytes` in one loop.
LoopKernel loop_kernel(std::int64_t element_bytes);

/// Returns a faster kernel for elements of 3, 5, 6, 7 and 9 to 15 bytes, which are read and written
/// with whatever follows them, up to `wide_move_bytes`; nullptr for other sizes. Rows are
/// contiguous in the target; the last row of each column is written exactly.
GridKernel wide_move_kernel(std::int64_t element_bytes);

/// Returns the number of bytes that the wide kernel reads for an element of `element_bytes`.
std::int64_t wide_move_bytes(std::int64_t element_bytes);

}  // namespace tranship::host
