// The innermost loops of host copies, in one set for each instruction set of the processor.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tranship::host {

/// Points in rows and columns. The element at row i and column j is at `row_sources[i] +
/// column_sources[j]` in the source, and likewise in the target. Offsets come from lists, so that
/// several loops of a nest form one list.
struct Grid {
  std::int64_t element_bytes;
  const std::byte* source;
  std::byte* target;
  std::int64_t rows;
  const std::int64_t* row_sources;
  const std::int64_t* row_targets;
  std::int64_t columns;
  const std::int64_t* column_sources;
  const std::int64_t* column_targets;
  /// Distances of the rows in the source, and of the columns in the target, if they are all equal;
  /// otherwise 0. Kernels are twice as fast without loads from lists.
  std::int64_t row_pitch;
  std::int64_t column_pitch;
  bool even_targets;  ///< Whether the rows are equally far apart in the target as well.
};

using GridKernel = void (*)(const Grid&);

/// Longest list of rows or of columns.
inline constexpr std::int64_t list_max = 512;

/// A copy of a contiguous run of the target, 16 bytes at a time, each of them gathered from a few
/// windows of 16 bytes of the source: for runs whose bytes lie near each other in the source.
struct ShuffleProgram {
  static constexpr int entries_max = 512;
  static constexpr int windows_max = 8;

  int vectors;  ///< Number of times that 16 bytes are written; the last ones end the run.
  int windows;  ///< Number of windows for each of them.
  std::int64_t run_bytes;
  std::int64_t source_low;   ///< First byte that is read, from the run's first one.
  std::int64_t source_high;  ///< End of the bytes that are read.
  std::int64_t offsets[entries_max];
  /// Number of the byte in its window for each byte of the target; 0x80 for those of others.
  alignas(16) std::uint8_t masks[entries_max][16];
};

/// A copy of one record of several pieces to contiguous bytes of the target, 16 bytes at a time,
/// each of them gathered from a few windows of 16 bytes of the source.
struct RecordProgram {
  static constexpr int vectors_max = 3;
  static constexpr int windows_max = 2;

  std::int64_t record_bytes;
  int vectors;  ///< Number of times that 16 bytes are written; the last ones end the record.
  int windows;  ///< Number of windows for each of them.
  std::int64_t source_low;   ///< First byte that is read, from the record's first one.
  std::int64_t source_high;  ///< End of the bytes that are read.
  std::int64_t offsets[vectors_max][windows_max];
  /// Number of the byte in its window for each byte of the target; 0x80 for those of others.
  alignas(16) std::uint8_t masks[vectors_max][windows_max][16];
};

/// The kernels of one instruction set. Source and target never overlap; any alignment is allowed.
struct Kernels {
  const char* name;

  /// Copies a run with streaming stores of whole cache lines. Ends of the run that share a line
  /// with other data are stored as usual. The caller fences.
  void (*stream)(const std::byte* source, std::byte* target, std::int64_t bytes);

  /// Runs a program for every column of a grid; nullptr where there is no shuffle of bytes.
  void (*shuffle)(const ShuffleProgram& program, const Grid& grid);

  /// Runs a program for every point of a grid whose rows lie one right behind the other in the
  /// target if records are shorter than 16 bytes; nullptr where there is no shuffle of bytes.
  void (*records)(const RecordProgram& program, const Grid& grid);

  /// Grids whose rows are contiguous in the target and whose columns are in the source, for
  /// elements of 1, 2, 3, 4, 8 and 16 bytes; nullptr where there is none.
  GridKernel transpose[17];

  /// Grids with 2 to `interleave_most` rows or columns of records that lie one right behind the
  /// other, for elements of 1, 2 and 4 bytes; nullptr where there is none.
  GridKernel interleave[5];
  std::int64_t interleave_most[5];

  /// Least number of rows and of columns of `transpose`, by the size of the elements.
  std::int64_t transpose_least[17];
};

/// Returns the best kernels for this processor, chosen once.
const Kernels& kernels();

/// Returns the kernels of one instruction set ("scalar", "sse2", "avx2" or "avx512"), for tests;
/// nullptr if the processor or the build lacks it.
const Kernels* kernels_named(const char* name);

/// Makes the streaming stores of this thread visible before its later stores.
void fence_streams();

}  // namespace tranship::host
