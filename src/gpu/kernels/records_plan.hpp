// Plans for nests that are the fields of one array of records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpu/kernels/nest_plan.hpp"

namespace tranship::gpu {

struct KernelPlan;
struct KernelTuning;
struct NormalNest;

constexpr int record_fields_max = 16;

/// A field of records: its elements lie in records on one side, and in runs on the other.
struct RecordField {
  std::int32_t bytes = 0;          ///< bytes of one element
  std::int32_t unit_bytes = 1;     ///< bytes of one access; divides `bytes`
  Divisor units;                   ///< units of one element
  std::int32_t run_vectors = 0;    ///< vectors that one run of a box reaches into; an even number
  std::int32_t record_offset = 0;  ///< bytes from the record's beginning
  std::int32_t chunks = 0;         ///< chunks of 32 vectors in a box
  std::int64_t column_offset = 0;
  std::int64_t column_strides[kernel_loops_max] = {};
};

/// Parameters of a kernel for records. Records are loop 0: they follow each other at
/// `record_bytes`. The runs of a field go along loop 0 as well, or (`across`) along loop 1. A box
/// holds rows of records as they lie in memory.
struct RecordsPlan {
  bool to_columns = false;  ///< the records are the source
  bool across = false;
  std::int32_t fields_count = 0;
  std::int32_t rank = 0;
  std::int32_t record_bytes = 0;  ///< from one record to the next
  std::int32_t record_span = 0;   ///< from the first field's beginning to the last one's end
  std::int32_t box[2] = {1, 1};   ///< indices of the loops 0 and 1
  /// Indices that a box reads before its own, so that writes to columns begin at multiples of a
  /// sector.
  std::int32_t margin = 0;
  std::int32_t pitch_bytes = 0;  ///< bytes from row to row in shared memory
  std::int32_t chunks = 0;       ///< chunks of all fields
  Divisor row_vectors;           ///< vectors that a row of a box reaches into
  Divisor runs;                  ///< runs of one field in a box
  std::int64_t record_offset = 0;
  std::int64_t extents[kernel_loops_max] = {};
  std::int64_t record_strides[kernel_loops_max] = {};
  Divisor boxes[kernel_loops_max];
  RecordField fields[record_fields_max];
};

/// Appends one plan for all the nests, if on one side they are the fields of records. Returns
/// false, with nothing appended, if they are not or if another kernel is as good.
bool plan_records(std::span<const NormalNest> normals, const std::byte* source,
                  const std::byte* target, const KernelTuning& tuning,
                  std::vector<KernelPlan>& plans);

std::string explain_records(const KernelPlan& plan);

}  // namespace tranship::gpu
