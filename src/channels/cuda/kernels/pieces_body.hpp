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
    Words<bytes> held[together];
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

/// What one lane of the `warp`-th of `warps` warps moves of a piece.
TRANSHIP_DEVICE void move_piece(const Piece& piece, const std::byte* source, std::byte* target,
                                std::uint32_t warp, std::uint32_t warps, std::uint32_t lane) {
  source += piece.source_offset;
  target += piece.target_offset;
  const auto from = reinterpret_cast<std::uintptr_t>(source);
  const auto to = reinterpret_cast<std::uintptr_t>(target);
  // The widest access for which both addresses can be aligned at once.
  const std::uintptr_t apart = (from ^ to) | 16;
  const std::int64_t width = static_cast<std::int64_t>(apart & (~apart + 1));
  std::int64_t head = static_cast<std::int64_t>((~to + 1) & static_cast<std::uintptr_t>(width - 1));
  if (head > piece.bytes) head = piece.bytes;
  const std::int64_t vectors = (piece.bytes - head) / width;
  const std::int64_t tail = head + vectors * width;
  if (warp == 0) {
    if (lane < head) write(target + lane, read<1>(source + lane));
    if (lane < piece.bytes - tail) write(target + tail + lane, read<1>(source + tail + lane));
  }
  source += head;
  target += head;
  switch (width) {
    case 16: return move_vectors<16>(source, target, vectors, warp, warps, lane);
    case 8: return move_vectors<8>(source, target, vectors, warp, warps, lane);
    case 4: return move_vectors<4>(source, target, vectors, warp, warps, lane);
    case 2: return move_vectors<2>(source, target, vectors, warp, warps, lane);
    default: return move_vectors<1>(source, target, vectors, warp, warps, lane);
  }
}

}  // namespace tranship::cuda
