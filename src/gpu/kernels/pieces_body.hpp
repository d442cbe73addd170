// Kernel body for lists of contiguous pieces: each piece gets enough warps to occupy the GPU even
// with few pieces.
#pragma once

#include <algorithm>

#include "gpu/kernels/direct_body.hpp"
#include "gpu/kernels/run_table.hpp"

namespace tranship::gpu {

constexpr std::int64_t warp_lanes = 32;
constexpr std::int64_t piece_warps = kernel_threads / warp_lanes;  ///< warps of a block
/// Warps that a launch should have even for few pieces: as many as the largest GPUs hold at once.
constexpr std::int64_t warps_wanted = 16384;

struct PieceShare {
  std::int64_t warps = 1;  ///< warps of a piece; a power of two
  std::int64_t blocks = 1;
};

inline PieceShare share_pieces(std::int64_t count) {
  PieceShare share;
  while (share.warps * count < warps_wanted) share.warps *= 2;
  share.blocks = (share.warps * count + piece_warps - 1) / piece_warps;
  return share;
}

/// Moves the middle of a piece, where both addresses are multiples of `bytes`.
template <int bytes>
TRANSHIP_DEVICE void move_vectors(const std::byte* source, std::byte* target, std::int64_t vectors,
                                  std::uint32_t warp, std::uint32_t warps, std::uint32_t lane) {
  constexpr std::int64_t together = 4;
  constexpr std::int64_t chunk = together * warp_lanes;
  for (std::int64_t first = warp * chunk; first < vectors; first += warps * chunk) {
    Words<bytes> held[together] = {};
    TRANSHIP_UNROLL
    for (int r = 0; r < together; ++r) {
      const std::int64_t vector = first + r * warp_lanes + lane;
      if (vector < vectors) held[r] = read<bytes>(source + vector * bytes);
    }
    TRANSHIP_UNROLL
    for (int r = 0; r < together; ++r) {
      const std::int64_t vector = first + r * warp_lanes + lane;
      if (vector < vectors) write(target + vector * bytes, held[r]);
    }
  }
}

/// Moves 16-byte vectors like move_vectors(), from a misaligned source, which is read in aligned
/// vectors: each of them twice, the second time from the cache.
TRANSHIP_DEVICE void move_misaligned(const std::byte* source, std::byte* target,
                                     std::int64_t vectors, std::uint32_t warp, std::uint32_t warps,
                                     std::uint32_t lane) {
  constexpr std::int64_t together = 4;
  constexpr std::int64_t chunk = together * warp_lanes;
  const auto misaligned = static_cast<std::uint32_t>(misaligned_bytes(source));
  const std::byte* from = source - misaligned;
  for (std::int64_t first = warp * chunk; first < vectors; first += warps * chunk) {
    Words<16> low[together];
    Words<16> high[together];
    TRANSHIP_UNROLL
    for (int r = 0; r < together; ++r) {
      const std::int64_t vector = first + r * warp_lanes + lane;
      if (vector >= vectors) continue;
      low[r] = read<16>(from + vector * 16);
      high[r] = read<16>(from + vector * 16 + 16);
    }
    TRANSHIP_UNROLL
    for (int r = 0; r < together; ++r) {
      const std::int64_t vector = first + r * warp_lanes + lane;
      if (vector >= vectors) continue;
      write(target + vector * 16, shift_vectors(low[r], high[r], misaligned));
    }
  }
}

TRANSHIP_DEVICE void move_bytes(const std::byte* source, std::byte* target, std::int64_t begin,
                                std::int64_t end, std::uint32_t lane) {
  for (std::int64_t at = begin + lane; at < end; at += warp_lanes) {
    write(target + at, read<1>(source + at));
  }
}

/// Moves one lane's share of a piece; the lane is in the `warp`-th of `warps` warps.
TRANSHIP_DEVICE void move_piece(const Run& piece, const std::byte* source, std::byte* target,
                                std::uint32_t warp, std::uint32_t warps, std::uint32_t lane) {
  source += piece.source_offset;
  target += piece.target_offset;
  const auto from = reinterpret_cast<std::uintptr_t>(source);
  const auto to = reinterpret_cast<std::uintptr_t>(target);
  std::int64_t begin = static_cast<std::int64_t>((~to + 1) % 16);
  const bool misaligned = (from ^ to) % 16 != 0;
  // Reads in aligned vectors reach up to 15 bytes beyond either end.
  if (misaligned) begin += 16;
  std::int64_t vectors = (piece.bytes - begin - (misaligned ? 16 : 0)) / 16;
  if (vectors <= 0) {
    if (warp == 0) move_bytes(source, target, 0, piece.bytes, lane);
    return;
  }
  if (warp == 0) {
    move_bytes(source, target, 0, begin, lane);
    move_bytes(source, target, begin + vectors * 16, piece.bytes, lane);
  }
  source += begin;
  target += begin;
  if (!misaligned) return move_vectors<16>(source, target, vectors, warp, warps, lane);
  move_misaligned(source, target, vectors, warp, warps, lane);
}

/// Returns a run of a table as a piece.
TRANSHIP_DEVICE Run piece_of(const RunTable& table, std::int64_t number) {
  const std::uint32_t* numbers = table.numbers + number;
  return {table.source_offset + numbers[0] * table.source_step,
          table.target_offset + numbers[table.count] * table.target_step,
          table.bytes != 0 ? table.bytes : numbers[2 * table.count] * table.length_step};
}

}  // namespace tranship::gpu
