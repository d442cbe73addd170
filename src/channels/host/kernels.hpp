// The innermost loops, one set for each instruction set; the best one is chosen once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tranship::host {

/// Two loops over elements that are copied between strided places. Element (i, j), with i below
/// `extent_0` and j below `extent_1`, lies at i * source_0 + j * source_1 in the source, and so on.
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

/// One instruction set's kernels. Source and target never overlap; any alignment will do.
struct Kernels {
  const char* name;

  /// Copies a run with streaming stores, whole cache lines at a time; the ends of the run that
  /// share a line with others are stored as usual. The caller fences.
  void (*stream)(const std::byte* source, std::byte* target, std::int64_t bytes);

  /// Grids where axis 0 is contiguous in the target and axis 1 in the source, for elements of 1,
  /// 2, 4, 8 and 16 bytes; nullptr where there is none.
  GridKernel transpose[17];
};

/// The best kernels for this processor.
const Kernels& kernels();

/// The kernels of one instruction set ("scalar", "sse2", "avx2", "avx512"), for tests; nullptr if
/// the processor or the build lacks it.
const Kernels* kernels_named(const char* name);

/// The kernel of `set` for grids of such elements and strides.
GridKernel select_kernel(const Kernels& set, const Grid& grid);

/// Makes the streaming stores of this thread visible before its later stores.
void fence_streams();

}  // namespace tranship::host
