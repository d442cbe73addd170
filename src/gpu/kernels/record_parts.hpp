// Nests that are the parts of one record on both sides, in any order and with gaps between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/kernels/normal_nest.hpp"

namespace tranship::gpu {

/// A part of a record that is contiguous on both sides. Offsets are bytes from the record's
/// beginning.
struct RecordPart {
  std::int64_t source = 0;
  std::int64_t target = 0;
  std::int64_t bytes = 0;
};

/// Records that are copied to records.
struct RecordParts {
  std::vector<Loop> loops;  ///< loops over the records, fastest in the target first
  std::vector<RecordPart> parts;
  std::int64_t source_offset = 0;  ///< offset of the first record's first part
  std::int64_t target_offset = 0;
  std::int64_t source_span = 0;  ///< bytes from the first part's beginning to the last one's end
  std::int64_t target_span = 0;
  std::int64_t bytes = 0;  ///< bytes of all parts together
};

/// Finds the loops that all the nests have with the same strides on both sides; what the nests'
/// other loops visit are parts of a record. Returns false if there are no such loops, or too many
/// parts.
bool view_parts(std::span<const NormalNest> normals, RecordParts& records);

/// Repeats parts along a loop.
void repeat(const Loop& loop, std::vector<RecordPart>& parts);

/// Returns the or-ed offsets and lengths of all parts, whose lowest bit is their alignment.
std::int64_t part_bits(std::span<const RecordPart> parts);

}  // namespace tranship::gpu
