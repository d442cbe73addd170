// What the planners of kernels can be told.
#pragma once

#include <cstdint>

namespace tranship::gpu {

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

}  // namespace tranship::gpu
