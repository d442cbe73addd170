// Kernel bodies for boxes of a nest that both sides walk in the same order, or in long runs, so
// that their data need not pass through shared memory. `list_rows` writes to shared memory where
// the runs of the box begin. After a barrier, `move_direct` moves units that are aligned on both
// sides, and `move_shifted` moves runs at any alignment, in aligned vectors of the target, each
// combined from two vectors of the source.
#pragma once

#include "gpu/kernels/kernel_body.hpp"

namespace tranship::gpu {

/// Addresses of a run of a box: of its first element, or of its first byte.
struct Row {
  const std::byte* source;
  std::byte* target;
};

/// Where a block's box begins. All loops of the box are whole except the last, which an edge may
/// cut.
struct DirectPlace {
  const std::byte* source;
  std::byte* target;
  std::uint32_t rows;          ///< rows inside the nest
  std::uint32_t row_elements;  ///< elements along loop 0; those of a whole box if rows > 1
  std::int64_t first;          ///< index of loop 0
};

TRANSHIP_DEVICE DirectPlace locate_direct(const NestPlan& plan, std::uint32_t block,
                                          const std::byte* source, std::byte* target) {
  DirectPlace place{source + plan.source_offset, target + plan.target_offset,
                    static_cast<std::uint32_t>(plan.rows), static_cast<std::uint32_t>(plan.box[0]),
                    0};
  for (int k = 0; k < plan.rank; ++k) {
    const std::int64_t first = enter_loop(plan, k, block, place);
    const std::int64_t left = plan.loops[k].extent - first;
    const bool cut = left < plan.box[k];
    if (k == 0) place.first = first;
    if (k == 0 && cut) place.row_elements = static_cast<std::uint32_t>(left);
    if (k > 0 && cut) place.rows = static_cast<std::uint32_t>(left * plan.inner_rows);
  }
  return place;
}

/// First phase: writes where the runs of the box begin, once for all of their elements.
TRANSHIP_DEVICE void list_rows(const NestPlan& plan, const DirectPlace& place, std::uint32_t thread,
                               Row* rows) {
  for (std::uint32_t row = thread; row < place.rows; row += kernel_threads) {
    Row at{place.source, place.target};
    std::uint32_t rest = row;
    for (int k = 1; k < plan.box_rank; ++k) {
      const std::uint32_t next = divide(rest, plan.target_steps[k].extent);
      const std::int64_t index = rest - next * plan.target_steps[k].extent.divisor;
      at.source += index * plan.loops[k].source_stride;
      at.target += index * plan.loops[k].target_stride;
      rest = next;
    }
    rows[row] = at;
  }
}

/// An element or vector of the box: its run, and its index along the run.
struct InRow {
  std::uint32_t row;
  std::uint32_t index;
};

TRANSHIP_DEVICE InRow in_row(const NestPlan& plan, std::uint32_t number) {
  const std::uint32_t row = divide(number, plan.target_steps[0].extent);
  return {row, number - row * plan.target_steps[0].extent.divisor};
}

/// Moves aligned units, as the second phase. Reads several elements before it writes the first.
template <int element_bytes>
TRANSHIP_DEVICE void move_direct(const NestPlan& plan, const DirectPlace& place, const Row* rows,
                                 std::uint32_t thread) {
  constexpr int together = 4;
  const std::uint32_t count = place.rows * place.row_elements;
  const std::int64_t source_stride = plan.loops[0].source_stride;
  const std::int64_t target_stride = plan.loops[0].target_stride;
  for (std::uint32_t first = thread; first < count; first += together * kernel_threads) {
    Words<element_bytes> held[together] = {};
    std::byte* to[together];
    TRANSHIP_UNROLL
    for (int r = 0; r < together; ++r) {
      const std::uint32_t number = first + static_cast<std::uint32_t>(r * kernel_threads);
      if (number >= count) continue;
      const InRow at = in_row(plan, number);
      const Row row = rows[at.row];
      held[r] = read<element_bytes>(row.source + at.index * source_stride);
      to[r] = row.target + at.index * target_stride;
    }
    TRANSHIP_UNROLL
    for (int r = 0; r < together; ++r) {
      const std::uint32_t number = first + static_cast<std::uint32_t>(r * kernel_threads);
      if (number < count) write(to[r], held[r]);
    }
  }
}

/// Returns the 16 bytes that begin `bytes` bytes after the beginning of `low`; `high` follows
/// `low`.
TRANSHIP_DEVICE Words<16> shift_vectors(const Words<16>& low, const Words<16>& high,
                                        std::uint32_t bytes) {
  std::uint32_t word[8];
  TRANSHIP_UNROLL
  for (int k = 0; k < 4; ++k) {
    word[k] = low.word[k];
    word[k + 4] = high.word[k];
  }
  TRANSHIP_UNROLL
  for (int k = 0; k < 6; ++k) word[k] = (bytes & 8) != 0 ? word[k + 2] : word[k];
  TRANSHIP_UNROLL
  for (int k = 0; k < 5; ++k) word[k] = (bytes & 4) != 0 ? word[k + 1] : word[k];
  Words<16> result{};
  TRANSHIP_UNROLL
  for (int k = 0; k < 4; ++k) {
    const std::uint64_t both = static_cast<std::uint64_t>(word[k + 1]) << 32 | word[k];
    result.word[k] = static_cast<std::uint32_t>(both >> (bytes % 4 * 8));
  }
  return result;
}

/// Returns `bytes` bytes of a vector, from byte `at` on, which is a multiple of `bytes`.
template <int bytes>
TRANSHIP_DEVICE Words<bytes> part_of(const Words<16>& words, std::int32_t at) {
  Words<bytes> part{};
  if constexpr (bytes == 8) {
    part.word[0] = at == 0 ? words.word[0] : words.word[2];
    part.word[1] = at == 0 ? words.word[1] : words.word[3];
  } else {
    const std::uint32_t low = (at & 4) != 0 ? words.word[1] : words.word[0];
    const std::uint32_t high = (at & 4) != 0 ? words.word[3] : words.word[2];
    part.word[0] = ((at & 8) != 0 ? high : low) >> (at % 4 * 8);
  }
  return part;
}

/// Writes `bytes` bytes from `at` on, if `wanted` is true and they end by `end`; returns the end of
/// what has been written.
template <int bytes>
TRANSHIP_DEVICE std::int32_t write_bytes(std::byte* target, const Words<16>& words, std::int32_t at,
                                         std::int32_t end, bool wanted) {
  if (!wanted || at + bytes > end) return at;
  write(target + at, part_of<bytes>(words, at));
  return at + bytes;
}

/// Writes the bytes from `begin` to `end` of a partial vector, in as few accesses as possible.
TRANSHIP_DEVICE void write_part(std::byte* target, const Words<16>& words, std::int32_t begin,
                                std::int32_t end) {
  std::int32_t at = begin;
  at = write_bytes<1>(target, words, at, end, (at & 1) != 0);
  at = write_bytes<2>(target, words, at, end, (at & 2) != 0);
  at = write_bytes<4>(target, words, at, end, (at & 4) != 0);
  at = write_bytes<8>(target, words, at, end, true);
  at = write_bytes<4>(target, words, at, end, true);
  at = write_bytes<2>(target, words, at, end, true);
  write_bytes<1>(target, words, at, end, true);
}

TRANSHIP_DEVICE std::int32_t misaligned_bytes(const std::byte* address) {
  return static_cast<std::int32_t>(reinterpret_cast<std::uintptr_t>(address) % 16);
}

/// Range of addresses in which aligned vectors of the source may be read.
struct SourceSpan {
  const std::byte* low;
  const std::byte* high;
};

/// A vector of the target, whose bytes from `begin` to `end` belong to the run. `source` is the
/// address of its byte 0, which may lie before the run.
struct ShiftedVector {
  const std::byte* source;
  std::byte* target;
  std::int32_t begin;
  std::int32_t end;
};

/// The two aligned vectors of the source that hold the bytes of a vector of the target; a vector
/// without any of these bytes is not read.
struct VectorPair {
  Words<16> low;
  Words<16> high;
  bool read;  ///< false: a vector reaches beyond the nest, and bytes must be moved singly
};

TRANSHIP_DEVICE VectorPair read_pair(const ShiftedVector& vector, const SourceSpan& span) {
  VectorPair pair{};
  const std::int32_t misaligned = misaligned_bytes(vector.source);
  const std::byte* from = vector.source - misaligned;
  const bool reads_low = misaligned + vector.begin < 16, reads_high = misaligned + vector.end > 16;
  pair.read = from + (reads_low ? 0 : 16) >= span.low && from + (reads_high ? 32 : 16) <= span.high;
  if (!pair.read) return pair;
  if (reads_low) pair.low = read<16>(from);
  if (reads_high) pair.high = read<16>(from + 16);
  return pair;
}

TRANSHIP_DEVICE void write_pair(const ShiftedVector& vector, const VectorPair& pair) {
  if (!pair.read) {
    for (std::int32_t at = vector.begin; at < vector.end; ++at) {
      write(vector.target + at, read<1>(vector.source + at));
    }
    return;
  }
  const auto misaligned = static_cast<std::uint32_t>(misaligned_bytes(vector.source));
  const Words<16> words = shift_vectors(pair.low, pair.high, misaligned);
  if (vector.end - vector.begin == 16) {
    write(vector.target, words);
  } else {
    write_part(vector.target, words, vector.begin, vector.end);
  }
}

/// Returns the end of a run that is not a whole vector of the target: before the first whole
/// vector, or after the last (`behind`). Empty if there is none.
TRANSHIP_DEVICE ShiftedVector end_of(const NestPlan& plan, const Row& row, bool behind) {
  const std::int32_t misaligned = misaligned_bytes(row.target);
  if (!behind) {
    const std::int64_t left = plan.run_bytes + misaligned;
    const std::int32_t end = left < 16 ? static_cast<std::int32_t>(left) : 16;
    return {row.source - misaligned, row.target - misaligned, misaligned,
            misaligned == 0 ? 0 : end};
  }
  const std::int32_t over = misaligned_bytes(row.target + plan.run_bytes);
  const std::int64_t at = plan.run_bytes - over;
  return {row.source + at, row.target + at, 0, at < 0 ? 0 : over};
}

/// Second phase for runs at any alignment: moves their whole vectors, and then their ends, so that
/// few threads wait for the ends.
TRANSHIP_DEVICE void move_shifted(const NestPlan& plan, const DirectPlace& place, const Row* rows,
                                  const SourceSpan& span, std::uint32_t thread) {
  constexpr int together = 2;
  const std::uint32_t count = place.rows * place.row_elements;
  for (std::uint32_t first = thread; first < count; first += together * kernel_threads) {
    ShiftedVector vectors[together];
    VectorPair pairs[together];
    TRANSHIP_UNROLL
    for (int r = 0; r < together; ++r) {
      const std::uint32_t number = first + static_cast<std::uint32_t>(r * kernel_threads);
      vectors[r].end = 0;
      if (number >= count) continue;
      const InRow at = in_row(plan, number);
      const Row row = rows[at.row];
      const std::int32_t before = (16 - misaligned_bytes(row.target)) % 16;
      // The index of a row's vector in its run is relative to the first vector of the box.
      const std::int64_t from = before + std::int64_t{at.index} * 16;
      if (from + 16 > plan.run_bytes - place.first * 16) continue;
      vectors[r] = {row.source + from, row.target + from, 0, 16};
      pairs[r] = read_pair(vectors[r], span);
    }
    TRANSHIP_UNROLL
    for (int r = 0; r < together; ++r) {
      if (vectors[r].end != 0) write_pair(vectors[r], pairs[r]);
    }
  }
  if (place.first != 0) return;
  for (std::uint32_t number = thread; number < 2 * place.rows; number += kernel_threads) {
    const ShiftedVector end = end_of(plan, rows[number / 2], number % 2 != 0);
    if (end.begin < end.end) write_pair(end, read_pair(end, span));
  }
}

/// Second phase for aligned or shifted runs; the plan's offsets are relative to `source`.
template <int element_bytes, bool shifted>
TRANSHIP_DEVICE void move_rows(const NestPlan& plan, const DirectPlace& place, const Row* rows,
                               const std::byte* source, std::uint32_t thread) {
  if constexpr (shifted) {
    const SourceSpan span{source + plan.source_low, source + plan.source_high};
    move_shifted(plan, place, rows, span, thread);
  } else {
    move_direct<element_bytes>(plan, place, rows, thread);
  }
}

}  // namespace tranship::gpu
