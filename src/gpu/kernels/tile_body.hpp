// Kernel body for transposes of any shape. A block moves a tile: positions of long target runs by
// positions of long source runs, which may go over several loops of the nest each. `tile_rows`
// computes where the tile's runs begin, once for all of their elements; `load_tile` copies source
// runs to shared memory, and `store_tile` writes target runs from there. Where target runs begin
// off the sectors of 32 bytes, each is cut at its own sector boundaries, so that no two blocks
// write to one sector; for that, a tile holds some positions of its predecessor.
#pragma once

#include "gpu/kernels/direct_body.hpp"
#include "gpu/kernels/tile_plan.hpp"

namespace tranship::gpu {

constexpr std::int64_t no_row = std::int64_t{-1} << 62;
/// On the host, no byte is read that is not wanted: memory may begin or end within a vector.
#ifdef __CUDA_ARCH__
constexpr bool cuts_vectors = false;
#else
constexpr bool cuts_vectors = true;
#endif

/// What a block's tile holds.
struct TilePlace {
  const std::byte* source;  ///< at the outer loops' indices
  std::byte* target;
  std::int32_t tile_p;   ///< number of the tile along the target runs
  std::int32_t first_p;  ///< first position held; may be negative
  std::int32_t first_q;
  std::int32_t width_q;  ///< positions along the source runs that lie inside the nest
  std::int32_t first_r;
  std::int32_t width_r;
  std::int32_t row_bytes;  ///< bytes of a source row
  std::int32_t first_at;   ///< byte of a source row at which the first position p lies
};

TRANSHIP_DEVICE std::uint32_t take_tile(std::uint32_t& block, const Divisor& count) {
  const std::uint32_t next = divide(block, count);
  const std::uint32_t index = block - next * count.divisor;
  block = next;
  return index;
}

/// Returns what a block holds, with the addresses at its indices of the loops outside of the runs.
TRANSHIP_DEVICE TilePlace enter_tile(const TilePlan& plan, std::uint32_t block,
                                     const std::byte* source, std::byte* target) {
  TilePlace place{};
  place.tile_p = static_cast<std::int32_t>(take_tile(block, plan.tiles_p));
  place.first_p = place.tile_p * plan.tile_p - plan.margin;
  place.first_q = static_cast<std::int32_t>(take_tile(block, plan.tiles_q)) * plan.tile_q;
  const std::int32_t left_q = plan.count_q - place.first_q;
  place.width_q = left_q < plan.tile_q ? left_q : plan.tile_q;
  place.first_r = static_cast<std::int32_t>(take_tile(block, plan.tiles_r)) * plan.tile_r;
  const std::int32_t left_r = plan.count_r - place.first_r;
  place.width_r = left_r < plan.tile_r ? left_r : plan.tile_r;
  std::int64_t from = plan.source_offset + place.first_r * plan.source_stride_r;
  std::int64_t to = plan.target_offset + place.first_r * plan.target_stride_r;
  for (int k = 0; k < plan.outer_rank; ++k) {
    const std::uint32_t index = take_tile(block, plan.outer[k].extent);
    from += index * plan.outer[k].source_stride;
    to += index * plan.outer[k].target_stride;
  }
  place.source = source + from;
  place.target = target + to;
  return place;
}

TRANSHIP_DEVICE TilePlace locate_tile(const TilePlan& plan, std::uint32_t block,
                                      const std::byte* source, std::byte* target) {
  TilePlace place = enter_tile(plan, block, source, target);
  place.source += place.first_q * plan.step_q;
  place.row_bytes =
      static_cast<std::int32_t>((place.width_q - 1) * plan.step_q) + plan.source_bytes;
  return place;
}

/// Returns the offset of a position that goes over several loops.
TRANSHIP_DEVICE std::int64_t position_offset(const TileLoop* loops, int rank,
                                             std::uint32_t position, bool source) {
  std::int64_t offset = 0;
  for (int k = 0; k < rank; ++k) {
    const std::uint32_t index = k + 1 < rank ? take_tile(position, loops[k].extent) : position;
    offset += index * (source ? loops[k].source_stride : loops[k].target_stride);
  }
  return offset;
}

/// Returns the offset of a target row of the tile; no_row if it lies outside the nest.
TRANSHIP_DEVICE std::int64_t target_row(const TilePlan& plan, const TilePlace& place,
                                        std::uint32_t row) {
  const std::uint32_t r = divide(row, plan.columns);
  const std::uint32_t q = row - r * plan.columns.divisor;
  const bool inside =
      static_cast<std::int32_t>(q) < place.width_q && static_cast<std::int32_t>(r) < place.width_r;
  const auto position = static_cast<std::uint32_t>(place.first_q) + q;
  return inside ? position_offset(plan.loops_q, plan.rank_q, position, false) +
                      r * plan.target_stride_r
                : no_row;
}

/// Writes the offsets of the tile's source rows, then those of its target rows.
TRANSHIP_DEVICE void tile_rows(const TilePlan& plan, const TilePlace& place, std::uint32_t thread,
                               std::int64_t* rows) {
  const auto held = static_cast<std::uint32_t>(plan.rows_p);
  const std::uint32_t source_rows = held * static_cast<std::uint32_t>(plan.tile_r);
  for (std::uint32_t row = thread; row < source_rows; row += kernel_threads) {
    const std::uint32_t r = divide(row, plan.held_rows);
    const std::int32_t p = place.first_p + static_cast<std::int32_t>(row - r * held);
    const bool inside = p >= 0 && p < plan.count_p && static_cast<std::int32_t>(r) < place.width_r;
    rows[row] =
        inside ? position_offset(plan.loops_p, plan.rank_p, static_cast<std::uint32_t>(p), true) +
                     r * plan.source_stride_r
               : no_row;
  }
  const std::uint32_t target_rows = plan.target_rows.divisor;
  for (std::uint32_t row = thread; row < target_rows; row += kernel_threads) {
    rows[source_rows + row] = target_row(plan, place, row);
  }
}

/// Returns the 16 bytes at any address. `bytes`: those of them that are wanted. Reads whole
/// vectors that have wanted bytes, but none that reaches beyond `high`.
TRANSHIP_DEVICE Words<16> read_any_vector(const std::byte* address, std::int32_t bytes,
                                          const std::byte* high) {
  const std::int32_t misaligned = misaligned_bytes(address);
  const std::byte* from = address - misaligned;
  const bool second = misaligned + bytes > 16;
  if (from + 32 > high || cuts_vectors) {
    Words<16> words{};
    TRANSHIP_UNROLL
    for (int j = 0; j < 16; ++j) {
      if (j < bytes) insert<1>(words, j, read<1>(address + j));
    }
    return words;
  }
  const Words<16> low = read<16>(from);
  const Words<16> next = second ? read<16>(from + 16) : Words<16>{};
  return shift_vectors(low, next, static_cast<std::uint32_t>(misaligned));
}

/// First phase: copies the tile's source runs to shared memory.
template <int unit_bytes>
TRANSHIP_DEVICE void load_tile(const TilePlan& plan, const TilePlace& place, std::uint32_t thread,
                               const std::byte* high, const std::int64_t* rows, std::byte* shared) {
  constexpr int word_bytes = unit_bytes < 4 ? 16 : unit_bytes;
  constexpr int together = unit_bytes < 4 ? 2 : word_bytes == 16 ? 4 : 8;
  const std::uint32_t count =
      plan.row_words.divisor * static_cast<std::uint32_t>(plan.rows_p * plan.tile_r);
  const std::int32_t width = place.row_bytes;
  for (std::uint32_t first = thread; first < count; first += together * kernel_threads) {
    Words<word_bytes> held[together] = {};
    std::int32_t to[together], end[together] = {};
    TRANSHIP_UNROLL
    for (int k = 0; k < together; ++k) {
      const std::uint32_t number = first + static_cast<std::uint32_t>(k * kernel_threads);
      to[k] = -1;
      if (number >= count) continue;
      const std::uint32_t row = divide(number, plan.row_words);
      const auto at =
          static_cast<std::int32_t>((number - row * plan.row_words.divisor) * word_bytes);
      const std::int64_t offset = rows[row];
      if (offset == no_row || at >= width) continue;
      to[k] = static_cast<std::int32_t>(row) * plan.pitch + at;
      end[k] = to[k] + width - at;
      const std::byte* from = place.source + offset + at;
      if constexpr (unit_bytes < 4) {
        held[k] = read_any_vector(from, width - at < 16 ? width - at : 16, high);
      } else {
        held[k] = read<word_bytes>(from);
      }
    }
    TRANSHIP_UNROLL
    for (int k = 0; k < together; ++k) {
      if (to[k] < 0) continue;
      if constexpr (unit_bytes < 4) {
        TRANSHIP_UNROLL
        for (int j = 0; j < 4; ++j) {
          if (to[k] + 4 * j < end[k]) write(shared + to[k] + 4 * j, extract<4>(held[k], j));
        }
      } else {
        write(shared + to[k], held[k]);
      }
    }
  }
}

/// Returns 16 bytes of units.
template <int unit_bytes>
TRANSHIP_DEVICE Words<16> joined(const Words<unit_bytes> (&units)[16 / unit_bytes]) {
  Words<16> words{};
  TRANSHIP_UNROLL
  for (int j = 0; j < 4; ++j) {
#ifdef __CUDA_ARCH__
    if constexpr (unit_bytes == 1) {
      const std::uint32_t low = __byte_perm(units[4 * j].word[0], units[4 * j + 1].word[0], 0x5140);
      const std::uint32_t high =
          __byte_perm(units[4 * j + 2].word[0], units[4 * j + 3].word[0], 0x5140);
      words.word[j] = __byte_perm(low, high, 0x5410);
      continue;
    } else if constexpr (unit_bytes == 2) {
      words.word[j] = __byte_perm(units[2 * j].word[0], units[2 * j + 1].word[0], 0x5410);
      continue;
    }
#endif
    constexpr int in_word = unit_bytes < 4 ? 4 / unit_bytes : 1;
    if constexpr (unit_bytes <= 4) {
      TRANSHIP_UNROLL
      for (int k = 0; k < in_word; ++k) {
        insert<unit_bytes>(words, j * in_word + k, units[j * in_word + k]);
      }
    } else {
      words.word[j] = units[4 * j / unit_bytes].word[j % (unit_bytes / 4)];
    }
  }
  return words;
}

/// A vector of a target run. Units count from the run's beginning, and those below 0 and from `end`
/// on do not belong to it.
struct TileVector {
  std::byte* run;     ///< the run's beginning
  std::int32_t unit;  ///< the vector's first unit
  std::int32_t end;
  std::int32_t q;
  std::int32_t r;
  bool exists;
};

/// The vectors of a tile, as a phase counts them. Neighbouring lanes write so few vectors of a run
/// that they read different banks.
template <int unit_bytes>
struct TileVectors {
  static constexpr int units = 16 / unit_bytes;
  static constexpr int lanes_log2 = unit_bytes == 1 ? 1 : unit_bytes == 2 ? 2 : 3;
  std::uint32_t count;
  std::int32_t first_unit;  ///< the tile's first unit in the runs
  std::int32_t run_units;
};

template <int unit_bytes>
TRANSHIP_DEVICE TileVectors<unit_bytes> tile_vectors(const TilePlan& plan, const TilePlace& place,
                                                     std::int32_t parts) {
  constexpr int lanes_log2 = TileVectors<unit_bytes>::lanes_log2;
  const auto groups =
      static_cast<std::uint32_t>(plan.row_vectors + (1 << lanes_log2) - 1) >> lanes_log2;
  return {(groups * static_cast<std::uint32_t>(plan.tile_q * plan.tile_r)) << lanes_log2,
          place.tile_p * plan.tile_p * parts, plan.count_p * parts};
}

/// Returns vector `number` of a tile. targets: Offsets of the target rows.
template <int unit_bytes>
TRANSHIP_DEVICE TileVector tile_vector(const TilePlan& plan, const TilePlace& place,
                                       const TileVectors<unit_bytes>& all,
                                       const std::int64_t* targets, bool joins,
                                       std::uint32_t number) {
  constexpr int units = TileVectors<unit_bytes>::units;
  constexpr int lanes_log2 = TileVectors<unit_bytes>::lanes_log2;
  const std::uint32_t rest = number >> lanes_log2;
  const std::uint32_t group = divide(rest, plan.target_rows);
  const std::uint32_t row = rest - group * plan.target_rows.divisor;
  const auto vector =
      static_cast<std::int32_t>(group << lanes_log2 | (number & ((1u << lanes_log2) - 1)));
  const std::int64_t offset = targets[row];
  TileVector result{};
  if (vector >= plan.row_vectors || offset == no_row) return result;
  const std::uint32_t r = divide(row, plan.columns);
  result.r = static_cast<std::int32_t>(r);
  result.q = static_cast<std::int32_t>(row - r * plan.columns.divisor);
  result.run = place.target + offset;
  const auto misaligned =
      static_cast<std::int32_t>(reinterpret_cast<std::uintptr_t>(result.run) % sector_bytes);
  result.unit =
      all.first_unit + vector * units - (joins ? misaligned % 16 : misaligned) / unit_bytes;
  result.end = joins ? all.run_units * (place.width_q - result.q) : all.run_units;
  // The vector in which a joined run begins belongs to its predecessor.
  const bool before = joins && result.unit < 0 && result.q > 0;
  result.exists = !before && result.unit + units > 0 && result.unit < all.run_units;
  return result;
}

/// Second phase: writes the tile's target runs from shared memory.
template <int unit_bytes, TileKind kind>
TRANSHIP_DEVICE void store_tile(const TilePlan& plan, const TilePlace& place, std::uint32_t thread,
                                const std::int64_t* rows, const std::byte* shared) {
  constexpr int units = 16 / unit_bytes;
  constexpr bool joins = kind == TileKind::joined;
  const std::int32_t parts = kind == TileKind::units ? 1 : plan.element_bytes / unit_bytes;
  const auto all = tile_vectors<unit_bytes>(plan, place, parts);
  const std::int64_t* targets = rows + plan.rows_p * plan.tile_r;
  for (std::uint32_t number = thread; number < all.count; number += kernel_threads) {
    const TileVector vector = tile_vector(plan, place, all, targets, joins, number);
    if (!vector.exists) continue;
    const std::int32_t unit = vector.unit, end = vector.end;
    // The position and the part of it that the vector begins with; rounded down if negative.
    std::int32_t p = unit, part = 0;
    if constexpr (kind != TileKind::units) {
      p = static_cast<std::int32_t>(
              divide(static_cast<std::uint32_t>(unit + 64 * parts), plan.parts)) -
          64;
      part = unit - p * parts;
    }
    std::int32_t at = (vector.r * plan.rows_p + p - place.first_p) * plan.pitch +
                      static_cast<std::int32_t>(vector.q * plan.step_q) + part * unit_bytes;
    const auto next = [&] {
      if constexpr (kind == TileKind::units) {
        at += plan.pitch;
        return;
      }
      const bool over = ++part == parts;
      part = over ? 0 : part;
      at += over ? unit_bytes + plan.pitch - plan.element_bytes : unit_bytes;
      if constexpr (joins) {
        p += over ? 1 : 0;
        const bool last = p == plan.count_p;
        p = last ? 0 : p;
        at += last ? plan.joined_step : 0;
      }
    };
    std::byte* to = vector.run + std::int64_t{unit} * unit_bytes;
    Words<unit_bytes> held[units];
    if (unit >= 0 && unit + units <= end) {
      TRANSHIP_UNROLL
      for (int j = 0; j < units; ++j) {
        held[j] = read<unit_bytes>(shared + at);
        next();
      }
      write(to, joined<unit_bytes>(held));
      continue;
    }
    TRANSHIP_UNROLL
    for (int j = 0; j < units; ++j) {
      held[j] = Words<unit_bytes>{};
      if (unit + j >= 0 && unit + j < end) held[j] = read<unit_bytes>(shared + at);
      next();
    }
    const std::int32_t first = unit < 0 ? -unit : 0;
    const std::int32_t last = end - unit < units ? end - unit : units;
    write_part(to, joined<unit_bytes>(held), first * unit_bytes, last * unit_bytes);
  }
}

}  // namespace tranship::gpu
