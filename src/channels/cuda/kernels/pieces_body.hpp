// Lists of contiguous pieces: so many warps for each piece that the GPU is busy with few of them.
#pragma once

#include <algorithm>

#include "channels/cuda/kernels/kernel_body.hpp"

namespace tranship::cuda {

constexpr std::int64_t warp_lanes = 32;
constexpr std::int64_t piece_warps = kernel_threads / warp_lanes;  ///< of a block
/// Warps that a launch should have, where pieces are too few: what the largest GPUs hold at once.
constexpr std::int64_t warps_wanted = 16384;

struct PieceShare {
  std::int64_t warps = 1;  ///< of a piece; a power of two
  std::int64_t blocks = 1;
};

inline PieceShare share_pieces(std::int64_t count) {
  PieceShare share;
  while (share.warps * count < warps_wanted) share.warps *= 2;
  share.blocks = (share.warps * count + piece_warps - 1) / piece_warps;
  return share;
}

/// The middle of a piece, from where both addresses are a multiple of `bytes`.
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

/// The part of two neighbouring vectors that begins `words` words and `bits` bits after the first.
template <int words>
TRANSHIP_DEVICE Words<16> shift_vectors(const Words<16>& low, const Words<16>& high,
                                        std::uint32_t bits) {
  Words<16> result{};
  TRANSHIP_UNROLL
  for (int k = 0; k < 4; ++k) {
    const int at = k + words;
    const std::uint32_t first = at < 4 ? low.word[at % 4] : high.word[at % 4];
    const std::uint32_t second = at + 1 < 4 ? low.word[(at + 1) % 4] : high.word[(at + 1) % 4];
    const std::uint64_t both = static_cast<std::uint64_t>(second) << 32 | first;
    result.word[k] = static_cast<std::uint32_t>(both >> bits);
  }
  return result;
}

/// As move_vectors() with 16 bytes, where the source lies askew: it is read in aligned vectors,
/// each of them twice, the second time from the cache.
template <int words>
TRANSHIP_DEVICE void move_shifted(const std::byte* source, std::byte* target, std::int64_t vectors,
                                  std::uint32_t warp, std::uint32_t warps, std::uint32_t lane) {
  constexpr std::int64_t together = 4;
  constexpr std::int64_t chunk = together * warp_lanes;
  const auto askew = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(source) % 16);
  const std::byte* from = source - askew;
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
      write(target + vector * 16, shift_vectors<words>(low[r], high[r], askew % 4 * 8));
    }
  }
}

TRANSHIP_DEVICE void move_bytes(const std::byte* source, std::byte* target, std::int64_t begin,
                                std::int64_t end, std::uint32_t lane) {
  for (std::int64_t at = begin + lane; at < end; at += warp_lanes) {
    write(target + at, read<1>(source + at));
  }
}

/// What one lane of the `warp`-th of `warps` warps moves of a piece.
TRANSHIP_DEVICE void move_piece(const Piece& piece, const std::byte* source, std::byte* target,
                                std::uint32_t warp, std::uint32_t warps, std::uint32_t lane) {
  source += piece.source_offset;
  target += piece.target_offset;
  const auto from = reinterpret_cast<std::uintptr_t>(source);
  const auto to = reinterpret_cast<std::uintptr_t>(target);
  std::int64_t begin = static_cast<std::int64_t>((~to + 1) % 16);
  const bool askew = (from ^ to) % 16 != 0;
  // What is read in aligned vectors reaches up to 15 bytes to either side.
  if (askew) begin += 16;
  std::int64_t vectors = (piece.bytes - begin - (askew ? 16 : 0)) / 16;
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
  if (!askew) return move_vectors<16>(source, target, vectors, warp, warps, lane);
  switch (reinterpret_cast<std::uintptr_t>(source) % 16 / 4) {
    case 0: return move_shifted<0>(source, target, vectors, warp, warps, lane);
    case 1: return move_shifted<1>(source, target, vectors, warp, warps, lane);
    case 2: return move_shifted<2>(source, target, vectors, warp, warps, lane);
    default: return move_shifted<3>(source, target, vectors, warp, warps, lane);
  }
}

/// One run of a nest, by its number.
TRANSHIP_DEVICE Piece run_of(const NestPlan& plan, std::uint32_t number) {
  Piece piece{plan.source_offset, plan.target_offset, plan.run_bytes};
  for (int k = 0; k < plan.rank; ++k) {
    const std::uint32_t next = divide(number, plan.boxes[k]);
    const std::int64_t index = number - next * plan.boxes[k].divisor;
    piece.source_offset += index * plan.loops[k].source_stride;
    piece.target_offset += index * plan.loops[k].target_stride;
    number = next;
  }
  return piece;
}

/// What a thread does for KernelKind::runs.
TRANSHIP_DEVICE void move_run(const NestPlan& plan, const std::byte* source, std::byte* target,
                              std::uint32_t block, std::uint32_t thread) {
  const std::uint32_t warp = block * static_cast<std::uint32_t>(piece_warps) + thread / 32;
  const std::uint32_t run = divide(warp, plan.run_warps);
  if (run >= static_cast<std::uint32_t>(plan.box_elements)) return;
  move_piece(run_of(plan, run), source, target, warp - run * plan.run_warps.divisor,
             plan.run_warps.divisor, thread % 32);
}

}  // namespace tranship::cuda
