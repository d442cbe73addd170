#include "gpu/kernels/records_plan.hpp"

#include <algorithm>
#include <numeric>

#include "base/check.hpp"
#include "gpu/kernels/kernel_plan.hpp"
#include "gpu/kernels/normal_nest.hpp"
#include "gpu/kernels/records_body.hpp"

namespace tranship::gpu {
namespace {

constexpr std::int64_t record_bytes_max = 1024;
/// Shortest mean run, in bytes: shorter runs are moved as well by a kernel for each nest.
constexpr std::int64_t run_bytes_least = 64;
/// Shortest row, in bytes, where a block has only one row: shorter rows give a block too little
/// normal.
constexpr std::int64_t row_bytes_least = 2048;

/// One side of a copy: selects strides and offsets of the source, or of the target.
struct NestSide {
  bool source = true;
  std::int64_t stride(const Loop& loop) const {
    return source ? loop.source_stride : loop.target_stride;
  }
  std::int64_t offset(const NormalNest& normal) const {
    return source ? normal.source_offset : normal.target_offset;
  }
};

struct PlannedField {
  std::int64_t bytes = 0;
  std::int64_t record_at = 0;
  std::int64_t column_at = 0;
  std::vector<std::int64_t> column_strides;  ///< for each loop of the records
};

struct RecordLoop {
  std::int64_t extent = 1;
  std::int64_t stride = 0;
};

/// Nests as fields of records on one side.
struct Records {
  bool to_columns = true;
  std::vector<RecordLoop> loops;  ///< fastest in the records first
  std::vector<PlannedField> fields;
  std::int64_t first = 0;  ///< offset of the first field in the first record
  std::int64_t span = 0;   ///< bytes from there to the end of the last field
  std::int64_t bytes = 0;  ///< bytes of all fields together
};

const Loop* find(const NormalNest& normal, const RecordLoop& wanted, const NestSide& side) {
  for (const Loop& loop : normal.loops) {
    if (loop.extent == wanted.extent && side.stride(loop) == wanted.stride) return &loop;
  }
  return nullptr;
}

/// Returns the loops that all the nests have, by extent and stride in the records.
std::vector<RecordLoop> shared_loops(std::span<const NormalNest> normals, const NestSide& side) {
  std::vector<RecordLoop> loops;
  for (const Loop& loop : normals[0].loops) {
    const RecordLoop wanted{loop.extent, side.stride(loop)};
    const bool all = std::all_of(normals.begin(), normals.end(), [&](const NormalNest& normal) {
      return find(normal, wanted, side) != nullptr;
    });
    if (all) loops.push_back(wanted);
  }
  std::sort(loops.begin(), loops.end(),
            [](const RecordLoop& a, const RecordLoop& b) { return a.stride < b.stride; });
  return loops;
}

/// Adds the fields that a nest's other loops count, which have equal width. Returns false if there
/// are too many fields.
bool add_fields(const NormalNest& normal, const NestSide& side, Records& records) {
  const NestSide other{!side.source};
  PlannedField first{normal.element_bytes, side.offset(normal), other.offset(normal), {}};
  for (const RecordLoop& loop : records.loops) {
    first.column_strides.push_back(other.stride(*find(normal, loop, side)));
  }
  std::vector<PlannedField> fields = {first};
  for (const Loop& loop : normal.loops) {
    const bool shared =
        std::any_of(records.loops.begin(), records.loops.end(), [&](const RecordLoop& one) {
          return one.extent == loop.extent && one.stride == side.stride(loop);
        });
    if (shared) continue;
    if (loop.extent * static_cast<std::int64_t>(fields.size()) > record_fields_max) return false;
    const std::size_t before = fields.size();
    for (std::int64_t index = 1; index < loop.extent; ++index) {
      for (std::size_t k = 0; k < before; ++k) {
        PlannedField field = fields[k];
        field.record_at += index * side.stride(loop);
        field.column_at += index * other.stride(loop);
        fields.push_back(field);
      }
    }
  }
  records.fields.insert(records.fields.end(), fields.begin(), fields.end());
  return records.fields.size() <= record_fields_max;
}

/// Joins loops that continue each other in the records and in each field's column.
void join_loops(Records& records) {
  std::size_t kept = 0;
  for (std::size_t k = 1; k < records.loops.size(); ++k) {
    const RecordLoop last = records.loops[kept];
    const bool continues =
        records.loops[k].stride == last.extent * last.stride &&
        std::all_of(records.fields.begin(), records.fields.end(), [&](const PlannedField& field) {
          return field.column_strides[k] == last.extent * field.column_strides[kept];
        });
    if (continues) {
      records.loops[kept].extent *= records.loops[k].extent;
      continue;
    }
    ++kept;
    records.loops[kept] = records.loops[k];
    for (PlannedField& field : records.fields) field.column_strides[kept] = field.column_strides[k];
  }
  records.loops.resize(kept + 1);
  for (PlannedField& field : records.fields) field.column_strides.resize(kept + 1);
}

/// Computes the span of a record. Returns false if fields overlap or do not fit in a record.
bool measure_records(Records& records) {
  std::sort(records.fields.begin(), records.fields.end(),
            [](const PlannedField& a, const PlannedField& b) { return a.record_at < b.record_at; });
  records.first = records.fields.front().record_at;
  std::int64_t end = records.first;
  records.bytes = 0;
  for (const PlannedField& field : records.fields) {
    if (field.record_at < end) return false;
    end = field.record_at + field.bytes;
    records.bytes += field.bytes;
  }
  records.span = end - records.first;
  const std::int64_t stride = records.loops[0].stride;
  if (records.span > stride || stride > record_bytes_max) return false;
  // Bytes between the fields may be read, but not written.
  if (!records.to_columns) return records.bytes == stride;
  const auto sectors = static_cast<std::int64_t>(records.fields.size() * sector_bytes);
  return 2 * records.bytes >= stride || sectors >= stride;
}

/// Puts the loop along which all fields are contiguous first, or second if it is not the loop of
/// the records. Returns false if there is none, or if its runs are too short.
bool order_loops(Records& records) {
  const auto along = [&](std::size_t loop) {
    return std::all_of(
        records.fields.begin(), records.fields.end(),
        [&](const PlannedField& field) { return field.column_strides[loop] == field.bytes; });
  };
  for (std::size_t k = 0; k < records.loops.size(); ++k) {
    if (!along(k)) continue;
    for (std::size_t at = k; at > 1; --at) {
      std::swap(records.loops[at], records.loops[at - 1]);
      for (PlannedField& field : records.fields) {
        std::swap(field.column_strides[at], field.column_strides[at - 1]);
      }
    }
    const std::int64_t bytes = records.loops[std::min<std::size_t>(k, 1)].extent * records.bytes;
    if (k == 0 && bytes < row_bytes_least && records.loops.size() > 1) return false;
    return bytes >= run_bytes_least * static_cast<std::int64_t>(records.fields.size());
  }
  return false;
}

/// Plans records: first the fixed numbers, then the box, then the numbers that depend on both.
class Planner {
 public:
  Planner(const Records& records, const std::byte* record_side, const std::byte* column_side)
      : records_(records), record_side_(record_side), column_side_(column_side) {
    out_.to_columns = records.to_columns;
    out_.rank = static_cast<std::int32_t>(records.loops.size());
    out_.fields_count = static_cast<std::int32_t>(records.fields.size());
    out_.record_bytes = static_cast<std::int32_t>(records.loops[0].stride);
    out_.record_span = static_cast<std::int32_t>(records.span);
    out_.record_offset = records.first;
    out_.across = records.fields[0].column_strides[0] != records.fields[0].bytes;
    for (std::size_t k = 0; k < records.loops.size(); ++k) {
      out_.extents[k] = records.loops[k].extent;
      out_.record_strides[k] = records.loops[k].stride;
    }
    run_loop_ = out_.across ? 1 : 0;
    set_fields();
  }

  bool plan(const KernelTuning& tuning, KernelPlan& result) {
    if (out_.across) {
      shape_across(tuning.box_bytes);
    } else {
      shape_along(tuning.box_bytes);
    }
    set_margin();
    set_runs();
    if (!out_.to_columns && !out_.across) fill_rounds();
    set_rows();
    const std::int64_t blocks = set_boxes();
    if (blocks >= std::int64_t{1} << 31 || shared_bytes() > shared_bytes_max) return false;
    result.kind = KernelKind::records;
    result.element_bytes = smallest_unit();
    result.blocks = blocks;
    result.shared_bytes = static_cast<std::int32_t>(shared_bytes());
    result.records = out_;
    const RecordField& field = out_.fields[0];
    const std::int64_t record = out_.record_offset + field.record_offset;
    result.source_offset = out_.to_columns ? record : field.column_offset;
    result.target_offset = out_.to_columns ? field.column_offset : record;
    return true;
  }

 private:
  void set_fields() {
    std::int64_t record_bits = address_bits(record_side_, records_.first);
    for (const RecordLoop& loop : records_.loops) record_bits |= loop.stride;
    for (std::size_t k = 0; k < records_.fields.size(); ++k) {
      const PlannedField& from = records_.fields[k];
      RecordField& field = out_.fields[k];
      field.bytes = static_cast<std::int32_t>(from.bytes);
      field.record_offset = static_cast<std::int32_t>(from.record_at - records_.first);
      field.column_offset = from.column_at;
      std::copy(from.column_strides.begin(), from.column_strides.end(), field.column_strides);
      const std::int64_t unit =
          common_bytes(record_bits | field.record_offset | from.bytes | column_bits(field, true));
      field.unit_bytes = static_cast<std::int32_t>(unit);
      field.units = make_divisor(from.bytes / unit);
    }
  }

  /// Returns the or-ed bits of all the addresses at which a column's runs begin. run: Of the runs'
  /// elements as well.
  std::int64_t column_bits(const RecordField& field, bool run) const {
    std::int64_t bits = address_bits(column_side_, field.column_offset);
    for (int k = 0; k < out_.rank; ++k) {
      if (k != run_loop_ || run) bits |= field.column_strides[k];
    }
    return bits;
  }

  std::int32_t smallest_unit() const {
    std::int32_t unit = out_.fields[0].unit_bytes;
    for (int k = 1; k < out_.fields_count; ++k) unit = std::min(unit, out_.fields[k].unit_bytes);
    return unit;
  }

  /// Returns the number of indices after which each field has advanced by whole sectors.
  std::int64_t sector_step() const {
    std::int64_t step = 1;
    for (int k = 0; k < out_.fields_count; ++k) {
      step = std::max(step, sector_bytes / lowest_bit(out_.fields[k].bytes, sector_bytes));
    }
    return step;
  }

  void shape_along(std::int64_t box_bytes) {
    const std::int64_t step = std::max<std::int64_t>(sector_step(), warp_threads);
    const std::int64_t extent = ceil_divide(out_.extents[0], step) * step;
    const std::int64_t room = std::max<std::int64_t>(1, box_bytes / out_.record_bytes / step);
    out_.box[0] = static_cast<std::int32_t>(std::min(extent, room * step));
  }

  /// Sets a box with long runs on both sides: a fixed length along the columns, the rest along the
  /// records.
  void shape_across(std::int64_t box_bytes) {
    std::int32_t narrowest = out_.fields[0].bytes;
    for (int k = 1; k < out_.fields_count; ++k) {
      narrowest = std::min(narrowest, out_.fields[k].bytes);
    }
    const std::int64_t run_bytes = narrowest == 1 ? 128 : 256;
    const std::int64_t sector = sector_step();
    std::int64_t rows = ceil_divide(ceil_divide(run_bytes, narrowest), sector) * sector;
    rows = std::min(rows, ceil_divide(out_.extents[1], sector) * sector);
    const std::int64_t line = 128 / std::gcd(std::int64_t{128}, std::int64_t{out_.record_bytes});
    std::int64_t records = std::max<std::int64_t>(1, box_bytes / (rows * out_.record_bytes));
    if (records >= line) records = records / line * line;
    if (records >= out_.extents[0]) {
      records = out_.extents[0];
    } else {
      const std::int64_t step = std::max<std::int64_t>(1, line / 4);
      records = even_extent(out_.extents[0], records, step, 2 * records);
    }
    out_.box[0] = static_cast<std::int32_t>(records);
    out_.box[1] = static_cast<std::int32_t>(rows);
  }

  void set_margin() {
    if (!out_.to_columns) return;
    for (int k = 0; k < out_.fields_count; ++k) {
      const RecordField& field = out_.fields[k];
      const std::int64_t aligned = lowest_bit(column_bits(field, false), sector_bytes);
      const std::int64_t margin = ceil_divide(sector_bytes - aligned, field.bytes);
      out_.margin = std::max(out_.margin, static_cast<std::int32_t>(margin));
    }
  }

  void set_rows() {
    const std::int64_t before = out_.across ? 0 : out_.margin;
    std::int64_t bits = address_bits(record_side_, out_.record_offset);
    bits |= std::int64_t{out_.box[0]} * out_.record_bytes | before * out_.record_bytes;
    for (int k = 1; k < out_.rank; ++k) bits |= out_.record_strides[k];
    const std::int64_t bytes = (out_.box[0] + before) * out_.record_bytes;
    const std::int64_t skew = vector_bytes - lowest_bit(bits, vector_bytes);
    const std::int64_t vectors = ceil_divide(bytes + skew, vector_bytes);
    out_.row_vectors = make_divisor(vectors);
    if (!out_.across) return;
    // The pitch is an odd number of vectors, so that neighbouring rows lie in different banks.
    std::int64_t pitch = (vectors | 1) * vector_bytes;
    pitch += out_.record_strides[1] & (vector_bytes - 1);
    out_.pitch_bytes = static_cast<std::int32_t>(pitch);
  }

  /// Shrinks the box, by an eighth at most, where it has a few more vectors than all threads read
  /// at once: these would cost another wait for memory.
  void fill_rounds() {
    constexpr std::int32_t round = warps_of_block * chunks_together;
    const std::int32_t step = static_cast<std::int32_t>(sector_step());
    const std::int32_t begin = out_.box[0];
    const std::int32_t rounds = out_.chunks / round;
    while (rounds > 0 && out_.chunks > rounds * round && out_.box[0] - step >= begin - begin / 8) {
      out_.box[0] -= step;
      set_runs();
    }
    if (rounds == 0 || out_.chunks <= rounds * round) return;
    out_.box[0] = begin;
    set_runs();
  }

  void set_runs() {
    out_.chunks = 0;
    const std::int64_t runs = out_.across ? out_.box[0] : 1;
    out_.runs = make_divisor(runs);
    for (int k = 0; k < out_.fields_count; ++k) {
      RecordField& field = out_.fields[k];
      const std::int64_t bytes = std::int64_t{out_.box[run_loop_]} * field.bytes;
      const std::int64_t bits = column_bits(field, false) | bytes;
      // Towards columns, the margin covers misaligned bytes.
      const std::int64_t skew = out_.to_columns ? 0 : sector_bytes - lowest_bit(bits, sector_bytes);
      const std::int64_t vectors = 2 * ceil_divide(bytes + skew, sector_bytes);
      field.run_vectors = static_cast<std::int32_t>(vectors);
      field.chunks = static_cast<std::int32_t>(ceil_divide(runs * vectors, warp_threads));
      out_.chunks += field.chunks;
    }
  }

  std::int64_t set_boxes() {
    std::int64_t blocks = 1;
    for (int k = 0; k < out_.rank; ++k) {
      const std::int64_t margin = k == run_loop_ ? out_.margin : 0;
      const std::int64_t extent = k <= run_loop_ ? out_.box[k] : 1;
      const std::int64_t boxes = ceil_divide(out_.extents[k] + margin, extent);
      blocks *= boxes;
      if (blocks >= std::int64_t{1} << 31) return blocks;
      out_.boxes[k] = make_divisor(boxes);
    }
    return blocks;
  }

  std::int64_t shared_bytes() const {
    if (!out_.across) return shared_size(out_.row_vectors.divisor * vector_bytes, 4);
    const std::int64_t rows = out_.box[1] + out_.margin;
    return ceil_divide(rows * out_.pitch_bytes, vector_bytes) * vector_bytes + vector_bytes;
  }

  const Records& records_;
  const std::byte* record_side_;
  const std::byte* column_side_;
  RecordsPlan out_;
  int run_loop_ = 0;
};

/// Appends a plan for loops and fields as `records` has them. Returns false if no kernel can carry
/// them.
bool plan_view(Records& records, const std::byte* source, const std::byte* target,
               const KernelTuning& tuning, std::vector<KernelPlan>& plans) {
  if (records.loops.empty() || records.loops.front().stride <= 0) return false;
  if (!measure_records(records)) return false;
  join_loops(records);
  if (records.loops.size() > kernel_loops_max || !order_loops(records)) return false;
  const std::byte* record_side = records.to_columns ? source : target;
  const std::byte* column_side = records.to_columns ? target : source;
  KernelPlan plan;
  if (!Planner(records, record_side, column_side).plan(tuning, plan)) return false;
  plans.push_back(plan);
  return true;
}

}  // namespace

bool plan_records(std::span<const NormalNest> normals, const std::byte* source,
                  const std::byte* target, const KernelTuning& tuning,
                  std::vector<KernelPlan>& plans) {
  for (const bool to_columns : {true, false}) {
    Records records;
    records.to_columns = to_columns;
    const NestSide side{to_columns};
    records.loops = shared_loops(normals, side);
    const bool fits = std::all_of(normals.begin(), normals.end(), [&](const NormalNest& normal) {
      return add_fields(normal, side, records);
    });
    if (fits && plan_view(records, source, target, tuning, plans)) return true;
  }
  return false;
}

std::string explain_records(const KernelPlan& plan) {
  const RecordsPlan& records = plan.records;
  std::string text = records.to_columns ? "records of " : "columns to records of ";
  for (int k = 0; k < records.fields_count; ++k) {
    text += (k == 0 ? "" : " + ") + std::to_string(records.fields[k].bytes);
  }
  text += records.to_columns ? " bytes to columns, " : " bytes, ";
  text += "boxes of " + std::to_string(records.box[0]);
  if (records.across) text += " x " + std::to_string(records.box[1]);
  return text + " in " + std::to_string(plan.element_bytes) + "-byte units, margin " +
         std::to_string(records.margin) + ", " + std::to_string(plan.blocks) + " blocks";
}

}  // namespace tranship::gpu
