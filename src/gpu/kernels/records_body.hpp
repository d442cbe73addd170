// Kernel bodies for a RecordsPlan: what one thread of one block does, on the GPU and, phase by
// phase, on the CPU. Shared memory holds rows of whole records as they lie in memory, including up
// to 16 bytes before them, so that misaligned rows are moved in aligned vectors without shifting:
// the pitch of rows in shared memory equals their pitch in global memory modulo 16.
// To columns: `load_rows`, barrier, `store_runs`. To records: `load_runs`, barrier, `store_rows`.
#pragma once

#include "gpu/kernels/kernel_body.hpp"
#include "gpu/kernels/records_plan.hpp"

namespace tranship::gpu {

constexpr std::uint32_t vector_bytes = 16;
constexpr std::uint32_t warp_threads = 32;
constexpr std::uint32_t warps_of_block = kernel_threads / warp_threads;
/// Vectors of columns that a thread reads before it uses the first.
constexpr int chunks_together = 4;

/// Where a block's box begins.
struct RecordsPlace {
  std::byte* records;   ///< the first record of loops 0 and 1 in the block's outer indices
  std::byte* rows;      ///< the record with which shared memory begins
  std::byte* columns;   ///< address to which the fields' offsets are relative
  std::int64_t first0;  ///< the box's first indices of loops 0 and 1
  std::int64_t first1;
  std::uint32_t outer;  ///< the block's number along the loops outside the box
  std::uint32_t align;  ///< bytes between the start of a 16-byte vector and `rows`
  /// To columns: all vectors that rows reach into lie in the array. To records: all indices do.
  bool interior;
};

/// Divides a block's number into the number of a box along one loop, which it returns, and the
/// rest.
TRANSHIP_DEVICE std::int64_t take(std::uint32_t& block, const Divisor& boxes) {
  const std::uint32_t next = divide(block, boxes);
  const std::uint32_t index = block - next * boxes.divisor;
  block = next;
  return index;
}

/// Returns where a block's box begins. records, columns: The sides as the plan names them; which
/// one is the source does not matter for addresses. Neighbouring blocks are neighbours in the
/// target.
template <bool across, bool to_columns>
TRANSHIP_DEVICE RecordsPlace locate_records(const RecordsPlan& plan, std::uint32_t block,
                                            std::byte* records, std::byte* columns) {
  RecordsPlace place{nullptr, nullptr, columns, 0, 0, 0, 0, false};
  if constexpr (across && to_columns) place.first1 = take(block, plan.boxes[1]) * plan.box[1];
  place.first0 = take(block, plan.boxes[0]) * plan.box[0];
  if constexpr (across && !to_columns) place.first1 = take(block, plan.boxes[1]) * plan.box[1];
  place.outer = block;
  std::int64_t at = plan.record_offset;
  for (int k = across ? 2 : 1; k < plan.rank; ++k) {
    at += take(block, plan.boxes[k]) * plan.record_strides[k];
  }
  place.records = records + at;
  const std::int64_t row = across ? place.first1 - plan.margin : 0;
  const std::int64_t record = across ? place.first0 : place.first0 - plan.margin;
  place.rows = place.records + record * plan.record_bytes;
  if constexpr (across) place.rows += row * plan.record_strides[1];
  place.align =
      static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(place.rows) % vector_bytes);
  if constexpr (to_columns) {
    const std::int64_t near = record * plan.record_bytes;
    const std::int64_t far = near + plan.row_vectors.divisor * vector_bytes;
    place.interior = near >= vector_bytes && far <= (plan.extents[0] - 1) * plan.record_bytes;
  } else {
    place.interior = record + plan.box[0] <= plan.extents[0];
  }
  if constexpr (across) {
    const std::int64_t rows = plan.box[1] + plan.margin;
    place.interior = place.interior && row >= 0 && row + rows <= plan.extents[1];
  }
  return place;
}

/// One aligned vector of a row in global memory, and the bytes of it that belong to the row.
struct RowVector {
  std::byte* address;
  std::uint32_t image;  ///< its byte in shared memory
  std::uint32_t begin;
  std::uint32_t end;  ///< not above `begin`: no bytes
};

/// Tells the compiler that an address which was computed as a number is in global memory.
TRANSHIP_DEVICE void assume_global([[maybe_unused]] const std::byte* address) {
#ifdef __CUDA_ARCH__
  __builtin_assume(__isGlobal(address));
#endif
}

TRANSHIP_DEVICE std::uint32_t within_vector(std::int64_t bytes) {
  return bytes < 0 ? 0u : bytes > vector_bytes ? vector_bytes : static_cast<std::uint32_t>(bytes);
}

/// Returns vector `number` of the box's rows. Rows are read as far as the array extends, and
/// written only where the box's own records are.
template <bool across, bool to_columns>
TRANSHIP_DEVICE RowVector row_vector(const RecordsPlan& plan, const RecordsPlace& place,
                                     std::uint32_t number) {
  const std::uint32_t row = across ? divide(number, plan.row_vectors) : 0;
  const std::uint32_t vector = number - row * plan.row_vectors.divisor;
  std::byte* first = place.rows;
  std::uint32_t image = place.align;
  if constexpr (across) {
    first += row * plan.record_strides[1];
    image += row * static_cast<std::uint32_t>(plan.pitch_bytes);
  }
  const std::uint32_t before = image % vector_bytes;
  RowVector result{first - before + vector * vector_bytes, 0, 0, vector_bytes};
  result.image = image - before + vector * vector_bytes;
  if constexpr (!across) result.image = in_shared<4>(result.image);
  if (place.interior) {
    if (to_columns) return result;
    const auto at = static_cast<std::int32_t>(vector * vector_bytes - before);
    result.begin = at < 0 ? before : 0;
    result.end = within_vector(plan.box[0] * plan.record_bytes - at);
    return result;
  }
  const std::int64_t margin = across ? 0 : plan.margin;
  const std::int64_t record = place.first0 - margin;
  const std::int64_t last = record + plan.box[0] + margin;
  const std::int64_t end_record = last < plan.extents[0] ? last : plan.extents[0];
  std::byte* array = first - record * plan.record_bytes;
  std::byte* end = array + (end_record - 1) * plan.record_bytes + plan.record_span;
  bool exists = result.address < end;
  if constexpr (across) {
    const std::int64_t index = place.first1 - plan.margin + row;
    exists = exists && index >= 0 && index < plan.extents[1];
  }
  if constexpr (to_columns) {
    // Bytes beside the box lie in the same row: one whole vector costs less than its parts.
    first = array;
    end = array + (plan.extents[0] - 1) * plan.record_bytes + plan.record_span;
  }
  result.begin = within_vector(first - result.address);
  result.end = exists ? within_vector(end - result.address) : 0;
  return result;
}

/// Writes a whole vector to shared memory, in parts where gaps may cut it.
template <bool across>
TRANSHIP_DEVICE void put_image(std::byte* shared, const Words<16>& words) {
  constexpr int piece = across ? 16 : 4;
  TRANSHIP_UNROLL
  for (int j = 0; j < 16 / piece; ++j) write(shared + j * piece, extract<piece>(words, j));
}

template <bool across>
TRANSHIP_DEVICE Words<16> get_image(const std::byte* shared) {
  constexpr int piece = across ? 16 : 4;
  Words<16> words{};
  TRANSHIP_UNROLL
  for (int j = 0; j < 16 / piece; ++j) insert<piece>(words, j, read<piece>(shared + j * piece));
  return words;
}

template <bool across>
TRANSHIP_DEVICE std::uint32_t count_row_vectors(const RecordsPlan& plan) {
  std::uint32_t rows = 1;
  if constexpr (across) rows = static_cast<std::uint32_t>(plan.box[1] + plan.margin);
  return rows * plan.row_vectors.divisor;
}

/// To columns, first phase: copies rows of records from the source to shared memory.
template <bool across>
TRANSHIP_DEVICE void load_rows(const RecordsPlan& plan, const RecordsPlace& place,
                               std::uint32_t thread, std::byte* shared) {
  // With margins, rows across have more than four vectors for each thread: six are read at once, so
  // that one wait for memory suffices.
  constexpr int together = across ? 6 : 4;
  const std::uint32_t count = count_row_vectors<across>(plan);
  for (std::uint32_t first = thread; first < count; first += together * kernel_threads) {
    Words<16> held[together];
    std::uint32_t images[together];
    TRANSHIP_UNROLL
    for (int r = 0; r < together; ++r) {
      const std::uint32_t number = first + static_cast<std::uint32_t>(r * kernel_threads);
      images[r] = ~0u;
      if (number >= count) continue;
      const RowVector vector = row_vector<across, true>(plan, place, number);
      assume_global(vector.address);
      if (vector.begin == 0 && vector.end == vector_bytes) {
        held[r] = read<16>(vector.address);
        images[r] = vector.image;
        continue;
      }
      // A partial vector at an end of the array.
      for (std::uint32_t byte = vector.begin; byte < vector.end; ++byte) {
        write(shared + vector.image + byte, read<1>(vector.address + byte));
      }
    }
    TRANSHIP_UNROLL
    for (int r = 0; r < together; ++r) {
      if (images[r] != ~0u) put_image<across>(shared + images[r], held[r]);
    }
  }
}

/// To records, second phase: copies rows of records from shared memory to the target.
template <bool across>
TRANSHIP_DEVICE void store_rows(const RecordsPlan& plan, const RecordsPlace& place,
                                std::uint32_t thread, const std::byte* shared) {
  const std::uint32_t count = count_row_vectors<across>(plan);
  for (std::uint32_t number = thread; number < count; number += kernel_threads) {
    const RowVector vector = row_vector<across, false>(plan, place, number);
    assume_global(vector.address);
    if (vector.begin == 0 && vector.end == vector_bytes) {
      write(vector.address, get_image<across>(shared + vector.image));
      continue;
    }
    for (std::uint32_t byte = vector.begin; byte < vector.end; ++byte) {
      write(vector.address + byte, read<1>(shared + vector.image + byte));
    }
  }
}

/// Data common to all vectors of one field in a box. Byte positions are along a run, relative to
/// the box's first element.
struct FieldPlace {
  std::uint32_t field;
  std::int32_t first_chunk;
  std::int32_t end_chunk;      ///< the next field's first chunk
  std::byte* column;           ///< the box's first element in the run of its first record
  std::int64_t record_stride;  ///< bytes from run to run
  std::uint32_t runs;
  std::uint32_t vectors;
  std::int32_t low;     ///< where the array's run begins: 0 or less
  std::int32_t high;    ///< where the array's run ends, or some vectors after the box
  std::int32_t end;     ///< where the box ends
  std::uint32_t image;  ///< byte in shared memory of the first record's element
};

/// Moves on to the field of a chunk; chunks only increase from call to call.
template <bool across, bool to_columns>
TRANSHIP_DEVICE void seek(const RecordsPlan& plan, const RecordsPlace& place, std::int32_t chunk,
                          FieldPlace& at) {
  if (chunk < at.end_chunk) return;
  constexpr int along = across ? 1 : 0;
  do {
    ++at.field;
    at.first_chunk = at.end_chunk;
    at.end_chunk += plan.fields[at.field].chunks;
  } while (chunk >= at.end_chunk);
  const RecordField& field = plan.fields[at.field];
  const std::int64_t first = across ? place.first1 : place.first0;
  std::int64_t column = field.column_offset + first * field.bytes;
  std::uint32_t block = place.outer;
  for (int k = along + 1; k < plan.rank; ++k) {
    column += take(block, plan.boxes[k]) * field.column_strides[k];
  }
  at.runs = 1;
  at.record_stride = 0;
  if constexpr (across) {
    at.record_stride = field.column_strides[0];
    column += place.first0 * at.record_stride;
    const std::int64_t left = plan.extents[0] - place.first0;
    at.runs = static_cast<std::uint32_t>(left < plan.box[0] ? left : plan.box[0]);
  }
  at.column = place.columns + column;
  at.vectors = static_cast<std::uint32_t>(field.run_vectors);
  const std::int64_t near = first < sector_bytes ? first : sector_bytes;
  const std::int64_t left = plan.extents[along] - first;
  const std::int64_t far = plan.box[along] + std::int64_t{sector_bytes};
  at.low = -static_cast<std::int32_t>(near) * field.bytes;
  at.high = static_cast<std::int32_t>(left < far ? left : far) * field.bytes;
  at.end = plan.box[along] * field.bytes;
  at.image = place.align + static_cast<std::uint32_t>(field.record_offset);
}

/// One aligned vector of a run of a field.
struct RunVector {
  std::byte* address;
  std::int32_t begin;   ///< byte position from the box's first element
  std::uint32_t image;  ///< byte in shared memory of the run's first element
  bool exists;
  bool whole;
};

/// Returns the vector of a chunk that belongs to a lane. Two lanes share a sector; the pairs of
/// lanes go over the runs, which lie side by side in the records.
template <bool across, bool to_columns>
TRANSHIP_DEVICE RunVector run_vector(const RecordsPlan& plan, const FieldPlace& at,
                                     std::int32_t chunk, std::uint32_t lane) {
  const auto pair =
      static_cast<std::uint32_t>(chunk - at.first_chunk) * (warp_threads / 2) + lane / 2;
  const std::uint32_t pairs = across ? divide(pair, plan.runs) : pair;
  const std::uint32_t run = across ? pair - pairs * plan.runs.divisor : 0;
  const std::uint32_t vector = pairs * 2 + lane % 2;
  std::byte* column = at.column;
  RunVector result{nullptr, 0, at.image, false, false};
  if constexpr (across) {
    column += run * at.record_stride;
    result.image += run * static_cast<std::uint32_t>(plan.record_bytes);
  }
  // Runs are divided at whole sectors, so that no block shares a sector with its neighbour.
  const auto misaligned =
      static_cast<std::int32_t>(reinterpret_cast<std::uintptr_t>(column) % sector_bytes);
  result.begin = static_cast<std::int32_t>(vector * vector_bytes) - misaligned;
  result.address = column + result.begin;
  const std::int32_t end = result.begin + static_cast<std::int32_t>(vector_bytes);
  result.exists = run < at.runs && vector < at.vectors && result.begin < at.high && end > at.low &&
                  (to_columns || result.begin < at.end);
  result.whole = result.begin >= at.low && end <= at.high;
  return result;
}

/// Where the units of one run of a box lie in shared memory.
struct UnitPlace {
  std::uint32_t base;
  std::uint32_t step;  ///< bytes from element to element
};

template <bool across>
TRANSHIP_DEVICE UnitPlace unit_place(const RecordsPlan& plan, std::uint32_t image) {
  return {image, static_cast<std::uint32_t>(across ? plan.pitch_bytes : plan.record_bytes)};
}

/// Returns the byte in shared memory of the part of an element that begins `part` bytes after the
/// element's beginning.
template <bool across>
TRANSHIP_DEVICE std::uint32_t unit_at(const UnitPlace& place, std::uint32_t element,
                                      std::uint32_t part) {
  const std::uint32_t at = place.base + element * place.step + part;
  return across ? at : in_shared<4>(at);
}

template <int unit_bytes, bool across>
TRANSHIP_DEVICE Words<unit_bytes> get_unit(const UnitPlace& place, const std::byte* shared,
                                           std::uint32_t element, std::uint32_t part) {
  constexpr int piece = across || unit_bytes < 4 ? unit_bytes : 4;
  Words<unit_bytes> unit{};
  TRANSHIP_UNROLL
  for (int k = 0; k < unit_bytes / piece; ++k) {
    const std::uint32_t at =
        unit_at<across>(place, element, part + static_cast<std::uint32_t>(k * piece));
    insert<piece>(unit, k, read<piece>(shared + at));
  }
  return unit;
}

template <int unit_bytes, bool across>
TRANSHIP_DEVICE void put_unit(const UnitPlace& place, std::byte* shared, std::uint32_t element,
                              std::uint32_t part, const Words<unit_bytes>& unit) {
  constexpr int piece = across || unit_bytes < 4 ? unit_bytes : 4;
  TRANSHIP_UNROLL
  for (int k = 0; k < unit_bytes / piece; ++k) {
    const std::uint32_t at =
        unit_at<across>(place, element, part + static_cast<std::uint32_t>(k * piece));
    write(shared + at, extract<piece>(unit, k));
  }
}

/// Calls `visit(number in the vector, element, part of the element in bytes)` for the units of a
/// vector. first: Number of its first unit among those of the box's elements; may be negative.
template <int unit_bytes, typename Visit>
TRANSHIP_DEVICE void for_units(const RecordField& field, std::int32_t first, const Visit& visit) {
  constexpr int units = 16 / unit_bytes;
  if (field.units.divisor == 1) {
    TRANSHIP_UNROLL
    for (int j = 0; j < units; ++j) visit(j, static_cast<std::uint32_t>(first + j), 0u);
    return;
  }
  // Numbers below 0 mean nothing, and their results are not used.
  const auto positive = static_cast<std::uint32_t>(first < 0 ? 0 : first);
  std::uint32_t element = divide(positive, field.units);
  std::uint32_t part = positive - element * field.units.divisor;
  TRANSHIP_UNROLL
  for (int j = 0; j < units; ++j) {
    visit(j, element, part * unit_bytes);
    const bool counts = first + j >= 0;
    part += counts ? 1 : 0;
    const bool carry = part == field.units.divisor;
    part = carry ? 0 : part;
    element += carry ? 1 : 0;
  }
}

/// Returns whether byte `byte` of a vector is inside the run.
TRANSHIP_DEVICE bool inside_run(const FieldPlace& at, const RunVector& vector, int byte) {
  return vector.begin + byte >= at.low && vector.begin + byte < at.high;
}

/// Returns a run's vector, gathered from the box.
template <int unit_bytes, bool across>
TRANSHIP_DEVICE Words<16> gather_run(const RecordsPlan& plan, const RecordField& field,
                                     const RunVector& vector, const std::byte* shared) {
  const std::int32_t first = (vector.begin + plan.margin * field.bytes) / unit_bytes;
  const UnitPlace units = unit_place<across>(plan, vector.image);
  Words<16> words{};
  for_units<unit_bytes>(field, first, [&](int j, std::uint32_t element, std::uint32_t part) {
    insert<unit_bytes>(words, j, get_unit<unit_bytes, across>(units, shared, element, part));
  });
  return words;
}

/// Gathers one vector of a column from the box and writes it.
template <int unit_bytes, bool across>
TRANSHIP_DEVICE void store_run(const RecordsPlan& plan, const FieldPlace& at,
                               const RunVector& vector, const std::byte* shared) {
  const Words<16> words =
      gather_run<unit_bytes, across>(plan, plan.fields[at.field], vector, shared);
  if (vector.whole) return write(vector.address, words);
  TRANSHIP_UNROLL
  for (int j = 0; j < 16 / unit_bytes; ++j) {
    if (inside_run(at, vector, j * unit_bytes)) {
      write(vector.address + j * unit_bytes, extract<unit_bytes>(words, j));
    }
  }
}

/// To columns, second phase: every lane writes vectors of the fields' runs.
template <bool across>
TRANSHIP_DEVICE void store_runs(const RecordsPlan& plan, const RecordsPlace& place,
                                std::uint32_t thread, const std::byte* shared) {
  FieldPlace at{};
  at.field = ~0u;
  const auto warp = static_cast<std::int32_t>(thread / warp_threads);
  for (std::int32_t chunk = warp; chunk < plan.chunks; chunk += warps_of_block) {
    seek<across, true>(plan, place, chunk, at);
    const RunVector vector = run_vector<across, true>(plan, at, chunk, thread % warp_threads);
    if (!vector.exists) continue;
    switch (plan.fields[at.field].unit_bytes) {
      case 1: store_run<1, across>(plan, at, vector, shared); break;
      case 2: store_run<2, across>(plan, at, vector, shared); break;
      case 4: store_run<4, across>(plan, at, vector, shared); break;
      case 8: store_run<8, across>(plan, at, vector, shared); break;
      default: store_run<16, across>(plan, at, vector, shared); break;
    }
  }
}

/// A vector of a column between its read and its write to the box.
struct Held {
  Words<16> words;
  std::uint32_t field;
  std::int32_t begin;
  std::uint32_t image;
  bool exists;
};

/// Reads the bytes of a vector that lie in the array.
TRANSHIP_DEVICE Words<16> read_run(const FieldPlace& at, const RunVector& vector) {
  if (vector.whole) return read<16>(vector.address);
  Words<16> words{};
  TRANSHIP_UNROLL
  for (int byte = 0; byte < 16; ++byte) {
    if (inside_run(at, vector, byte)) insert<1>(words, byte, read<1>(vector.address + byte));
  }
  return words;
}

/// Scatters a vector of a column over the box.
template <int unit_bytes, bool across>
TRANSHIP_DEVICE void scatter_run(const RecordsPlan& plan, const Held& held, std::byte* shared) {
  const RecordField& field = plan.fields[held.field];
  const std::int32_t first = held.begin / unit_bytes;
  const std::int32_t limit =
      plan.box[across ? 1 : 0] * static_cast<std::int32_t>(field.units.divisor);
  const UnitPlace units = unit_place<across>(plan, held.image);
  const bool all = first >= 0 && first + 16 / unit_bytes <= limit;
  for_units<unit_bytes>(field, first, [&](int j, std::uint32_t element, std::uint32_t part) {
    if (all || (first + j >= 0 && first + j < limit)) {
      put_unit<unit_bytes, across>(units, shared, element, part,
                                   extract<unit_bytes>(held.words, j));
    }
  });
}

/// To records, first phase: reads vectors of the fields' runs from the source and scatters them
/// over the box.
template <bool across>
TRANSHIP_DEVICE void load_runs(const RecordsPlan& plan, const RecordsPlace& place,
                               std::uint32_t thread, std::byte* shared) {
  constexpr int together = chunks_together;
  constexpr auto warps = static_cast<std::int32_t>(warps_of_block);
  FieldPlace at{};
  at.field = ~0u;
  const auto warp = static_cast<std::int32_t>(thread / warp_threads);
  for (std::int32_t first = warp; first < plan.chunks; first += together * warps) {
    Held held[together];
    TRANSHIP_UNROLL
    for (int r = 0; r < together; ++r) {
      const std::int32_t chunk = first + r * warps;
      held[r].exists = false;
      if (chunk >= plan.chunks) continue;
      seek<across, false>(plan, place, chunk, at);
      const RunVector vector = run_vector<across, false>(plan, at, chunk, thread % warp_threads);
      held[r].field = at.field;
      held[r].begin = vector.begin;
      held[r].image = vector.image;
      held[r].exists = vector.exists;
      if (vector.exists) held[r].words = read_run(at, vector);
    }
    TRANSHIP_UNROLL
    for (int r = 0; r < together; ++r) {
      if (!held[r].exists) continue;
      switch (plan.fields[held[r].field].unit_bytes) {
        case 1: scatter_run<1, across>(plan, held[r], shared); break;
        case 2: scatter_run<2, across>(plan, held[r], shared); break;
        case 4: scatter_run<4, across>(plan, held[r], shared); break;
        case 8: scatter_run<8, across>(plan, held[r], shared); break;
        default: scatter_run<16, across>(plan, held[r], shared); break;
      }
    }
  }
}

}  // namespace tranship::gpu
