// How a request is cut into pieces that one thread carries at once: pure functions of the nests.
//
// All nests are seen from the file: loops by ascending stride in the file, which is never negative.
// A group of nests with equal loops (the fields of a record) is cut jointly. Of the loops
//   [0, dense)       lie in one I/O, whose bytes all belong to the group (writing) or mostly do
//                    (reading: the rest is read and dropped),
//   [dense, level)   repeat that I/O within a piece,
//   level            is divided into blocks of `block` indices, one for each piece; it lies in the
//                    I/O itself if dense == level + 1,
//   (level, rank)    are the pieces.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.hpp"
#include "data/loop_nest.hpp"

namespace tranship::file {

enum class Direction { read, write };

struct FileLoop {
  std::int64_t extent = 1;
  std::int64_t file_stride = 0;
  std::int64_t memory_stride = 0;
};

/// A nest from the file's side.
struct FileNest {
  std::int64_t element_bytes = 0;
  std::int64_t file_offset = 0;    ///< of the lowest byte, within the file
  std::int64_t memory_offset = 0;  ///< of the same point, from the memory's address
  int rank = 0;
  /// One more than `rank` are valid: the last has extent 1, so that a whole nest is one block.
  std::array<FileLoop, LoopNest::loops_max + 1> loops{};

  bool empty() const;
};

FileNest from_file(const LoopNest& nest, std::int64_t file_base, Direction direction);

/// Nests that one group may have: enough for the fields of most records.
inline constexpr std::size_t group_members_max = 64;

struct PieceLimits {
  std::int64_t window_bytes = 1 << 20;   ///< the largest I/O, and what a scratch buffer holds
  std::int64_t large_bytes = 64 * 1024;  ///< I/Os from here on are pieces of their own
  std::int64_t page_bytes = 4096;
};

enum class PieceMethod {
  straight,  ///< runs are contiguous on both sides: no image, or only to align them
  image,     ///< the copier gathers or scatters between memory and the file-order image
  mapped,    ///< small runs with small holes are stored into the mapped file
};

struct PiecePlan {
  PieceMethod method = PieceMethod::straight;
  std::size_t members = 0;  ///< nests of the group
  std::size_t apart = 0;    ///< nests after the group that do not pay to be tried with others
  bool solid_runs = false;  ///< the loops below `run_level` leave no hole (written jointly)
  int run_level = 0;
  int dense = 0;
  int level = 0;
  std::int64_t block = 1;
  std::int64_t bytes_block = 0;  ///< not 0: each element is divided into this many bytes, too
  std::int64_t pieces = 0;
};

/// How to cut the longest useful group at the front of `nests` (seen from the file, at most
/// group_members_max of them).
PiecePlan plan_pieces(std::span<const FileNest> nests, const PieceLimits& limits,
                      Direction direction);

/// One piece of a group.
struct Piece {
  std::int64_t file_shift = 0;                                ///< from each member's file offset
  std::array<std::int64_t, LoopNest::loops_max + 1> start{};  ///< first index of each loop
  std::int64_t count = 1;                                     ///< indices of the loop `level`
  std::int64_t bytes_begin = 0;  ///< the part of the element, if it is divided
  std::int64_t bytes_end = 0;

  std::int64_t memory_offset(const FileNest& member) const;
};

Piece piece_of(std::span<const FileNest> members, const PiecePlan& plan, std::int64_t index);

/// Bytes of the file from the first to the last that `level` inner loops of a group span.
std::int64_t span_bytes(std::span<const FileNest> members, int level);

std::int64_t lowest_offset(std::span<const FileNest> members);

/// Visits the points of loops [from, level] of a piece, as byte distances from its first point.
template <typename Visit>
Status for_each_run(const FileNest& nest, int from, int level, std::int64_t count, Visit&& visit) {
  std::array<std::int64_t, LoopNest::loops_max + 1> index{};
  std::int64_t file = 0;
  std::int64_t memory = 0;
  while (true) {
    if (Status visited = visit(file, memory); !visited) return visited;
    int k = from;
    for (; k <= level; ++k) {
      const auto at = static_cast<std::size_t>(k);
      const FileLoop& loop = nest.loops[at];
      const std::int64_t extent = k == level ? count : loop.extent;
      file += loop.file_stride;
      memory += loop.memory_stride;
      if (++index[at] < extent) break;
      file -= loop.file_stride * extent;
      memory -= loop.memory_stride * extent;
      index[at] = 0;
    }
    if (k > level) return {};
  }
}

}  // namespace tranship::file
