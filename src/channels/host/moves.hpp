// Copies of grids element by element, without any assumption about offsets or alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "channels/host/kernels.hpp"
#include "data/indexed_nest.hpp"

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

/// Elements at the places of lists; the side without a list is dense.
struct MoveList {
  std::int64_t element_bytes;
  std::size_t count;
  const std::uint32_t* sources;  ///< bytes; null: one element behind the other
  const std::uint32_t* targets;
  bool far;  ///< the listed side spans more than the inner caches hold
};
using ListKernel = void (*)(const MoveList& list, const std::byte* source, std::byte* target);

/// Returns the kernel that copies elements of `element_bytes` at the places of lists.
ListKernel list_kernel(std::int64_t element_bytes);

/// Copies one element for each entry of a list.
using EntriesKernel = void (*)(std::span<const IndexedEntry> entries, std::int64_t element_bytes,
                               const std::byte* source, std::byte* target);

/// Returns the kernel that copies elements of `element_bytes` from and to the entries of a list.
EntriesKernel entries_kernel(std::int64_t element_bytes);

/// Returns a faster kernel for elements of 3, 5, 6, 7 and 9 to 15 bytes, which are read and written
/// with whatever follows them, up to `wide_move_bytes`; nullptr for other sizes. Rows are
/// contiguous in the target; the last row of each column is written exactly.
GridKernel wide_move_kernel(std::int64_t element_bytes);

/// Returns the number of bytes that the wide kernel reads for an element of `element_bytes`.
std::int64_t wide_move_bytes(std::int64_t element_bytes);

}  // namespace tranship::host
