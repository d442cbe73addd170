#include "gpu/kernels/record_parts.hpp"

#include <algorithm>

#include "gpu/kernels/table_tile_plan.hpp"

namespace tranship::gpu {
namespace {

/// Returns the loops that all the nests have with the same strides on both sides.
std::vector<Loop> equal_loops(std::span<const NormalNest> normals) {
  std::vector<Loop> loops;
  for (const Loop& loop : normals[0].loops) {
    const bool all = std::all_of(normals.begin(), normals.end(), [&](const NormalNest& normal) {
      return std::find(normal.loops.begin(), normal.loops.end(), loop) != normal.loops.end();
    });
    if (all) loops.push_back(loop);
  }
  return loops;
}

/// Adds the parts that a nest's loops visit within a record. Returns false if there are too many.
bool add_parts(const NormalNest& normal, const std::vector<Loop>& loops,
               std::vector<RecordPart>& parts) {
  std::vector<RecordPart> own = {
      {normal.source_offset, normal.target_offset, normal.element_bytes}};
  for (const Loop& loop : normal.loops) {
    if (std::find(loops.begin(), loops.end(), loop) != loops.end()) continue;
    if (loop.extent * static_cast<std::int64_t>(own.size()) > table_units_max) return false;
    repeat(loop, own);
  }
  parts.insert(parts.end(), own.begin(), own.end());
  return parts.size() <= table_units_max;
}

/// Computes the spans, and counts the parts' offsets from the first part's beginning.
void measure(RecordParts& records) {
  std::int64_t first[2] = {records.parts[0].source, records.parts[0].target};
  std::int64_t end[2] = {first[0], first[1]};
  records.bytes = 0;
  for (const RecordPart& part : records.parts) {
    first[0] = std::min(first[0], part.source);
    first[1] = std::min(first[1], part.target);
    end[0] = std::max(end[0], part.source + part.bytes);
    end[1] = std::max(end[1], part.target + part.bytes);
    records.bytes += part.bytes;
  }
  for (RecordPart& part : records.parts) {
    part.source -= first[0];
    part.target -= first[1];
  }
  records.source_offset += first[0];
  records.target_offset += first[1];
  records.source_span = end[0] - first[0];
  records.target_span = end[1] - first[1];
}

}  // namespace

void repeat(const Loop& loop, std::vector<RecordPart>& parts) {
  const std::size_t before = parts.size();
  for (std::int64_t index = 1; index < loop.extent; ++index) {
    for (std::size_t k = 0; k < before; ++k) {
      parts.push_back({parts[k].source + index * loop.source_stride,
                       parts[k].target + index * loop.target_stride, parts[k].bytes});
    }
  }
}

bool view_parts(std::span<const NormalNest> normals, RecordParts& records) {
  records = {};
  records.loops = equal_loops(normals);
  if (records.loops.empty()) return false;
  for (const NormalNest& normal : normals) {
    if (!add_parts(normal, records.loops, records.parts)) return false;
  }
  measure(records);
  return true;
}

std::int64_t part_bits(std::span<const RecordPart> parts) {
  std::int64_t bits = 0;
  for (const RecordPart& part : parts) bits |= part.source | part.target | part.bytes;
  return bits;
}

}  // namespace tranship::gpu
