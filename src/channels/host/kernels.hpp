// The innermost loops of host copies, in one set for each instruction set of the processor.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tranship::host {

/// Two loops over strided elements. Element (i, j), with i below `extent_0` and j below `extent_1`,
/// is at i * source_0 + j * source_1 in the source, and likewise in the target.
struct Grid {
  std::int64_t element_bytes;
  const std::byte* source;
  std::byte* target;
  std::int64_t extent_0;
  std::int64_t source_0;
  std::int64_t target_0;
  std::int64_t extent_1;
  std::int64_t source_1;
  std::int64_t target_1;
};

using GridKernel = void (*)(const Grid&);

/// The kernels of one instruction set. Source and target never overlap; any alignment is allowed.
struct Kernels {
  const char* name;

  /// Copies a run with streaming stores of whole cache lines. Ends of the run that share a line
  /// with other data are stored as usual. The caller fences.
  void (*stream)(const std::byte* source, std::byte* target, std::int64_t bytes);

  /// Grids where axis 0 is contiguous in the target and axis 1 in the source, for elements of 1,
  /// 2, 4, 8 and 16 bytes; nullptr where there is none.
  GridKernel transpose[17];
};

/// Returns the best kernels for this processor, chosen once.
const Kernels& kernels();

/// Returns the kernels of one instruction set ("scalar", "sse2", "avx2" or "avx512"), for tests;
/// nullptr if the processor or the build lacks it.
const Kernels* kernels_named(const char* name);

/// Returns the kernel of `set` for grids of such elements and strides.
GridKernel select_kernel(const Kernels& set, const Grid& grid);

/// Makes the streaming stores of this thread visible before its later stores.
void fence_streams();

}  // namespace tranship::host
