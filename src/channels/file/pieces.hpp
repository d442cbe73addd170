// Division of a request into pieces, each of which one thread carries: pure functions of the nests.
//
// Nests are first normalised to the file's side: loops by ascending stride in the file, which is
// never negative. A group of nests with equal loops (the fields of a record) is divided jointly. Of
// the loops
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

/// Whether a request reads the file or writes it.
enum class Direction { read, write };

/// One loop of a FileNest. Strides are in bytes.
struct FileLoop {
  std::int64_t extent = 1;
  std::int64_t file_stride = 0;
  std::int64_t memory_stride = 0;
};

/// A nest normalised to the file's side.
struct FileNest {
  std::int64_t element_bytes = 0;
  std::int64_t file_offset = 0;    ///< offset of the lowest byte in the file
  std::int64_t memory_offset = 0;  ///< offset of the same point from the memory's address
  int rank = 0;
  /// One more than `rank` are valid: the last has extent 1, so that a whole nest is one block.
  std::array<FileLoop, LoopNest::loops_max + 1> loops{};

  /// Returns whether the nest moves nothing.
  bool empty() const;
};

/// Returns the nest normalised to the file's side.
FileNest from_file(const LoopNest& nest, std::int64_t file_base, Direction direction);

/// Largest number of nests in a group: enough for the fields of most records.
inline constexpr std::size_t group_members_max = 64;

/// Sizes that determine the division into pieces.
struct PieceLimits {
  std::int64_t window_bytes = 1 << 20;   ///< largest I/O, and size of a scratch buffer
  std::int64_t large_bytes = 64 * 1024;  ///< I/Os of at least this size are pieces of their own
  std::int64_t page_bytes = 4096;
  bool viewed = false;  ///< whether there is a map of the file
  bool cached = false;  ///< whether all that the request touches is in the page cache
  /// Bytes of a piece that is carried through a map.
  std::int64_t view_bytes = 512 * 1024;
};

/// How the bytes of a piece are moved.
enum class PieceMethod {
  straight,  ///< runs are contiguous on both sides; a scratch buffer only aligns them
  image,     ///< the copier gathers to or scatters from an image in the file's order
  viewed,    ///< the copier reads short runs from the mapped file, or stores them there
};

/// The division of one group into pieces.
struct PiecePlan {
  PieceMethod method = PieceMethod::straight;
  std::size_t members = 0;  ///< number of nests of the group
  std::size_t apart = 0;    ///< following nests that are not worth trying as a group
  bool whole = false;  ///< of viewed: the only piece is the group, to which any nests may be added
  std::int64_t io_bytes = 0;  ///< of one I/O
  bool large = false;         ///< the I/Os are large and without a hole
  int dense = 0;
  int level = 0;
  std::int64_t block = 1;
  std::int64_t bytes_block = 0;  ///< if not 0, each element is divided into blocks of so many bytes
  std::int64_t pieces = 0;
};

/// Returns the division of the longest useful group at the front of `nests`.
/// nests: At most group_members_max nests, normalised to the file's side.
PiecePlan plan_pieces(std::span<const FileNest> nests, const PieceLimits& limits,
                      Direction direction);

/// Least cost of a short run that is carried through a map, as the bytes of a long run that take as
/// long.
inline constexpr std::int64_t viewed_run_bytes = 128;

/// The position of one piece in its group.
struct PiecePosition {
  std::int64_t file_shift = 0;  ///< distance from each member's file offset
  std::array<std::int64_t, LoopNest::loops_max + 1> start{};  ///< first index of each loop
  std::int64_t count = 1;        ///< number of indices of the loop `level`
  std::int64_t bytes_begin = 0;  ///< first byte of the part of each element
  std::int64_t bytes_end = 0;

  /// Returns the offset of the piece's first byte in memory.
  std::int64_t memory_offset(const FileNest& member) const;
};

/// Returns the piece of number `index`.
PiecePosition piece_of(std::span<const FileNest> members, const PiecePlan& plan,
                       std::int64_t index);

/// Returns the bytes of the file from the first to the last that the `level` inner loops of a group
/// span.
std::int64_t span_bytes(std::span<const FileNest> members, int level);

/// Returns the lowest file offset of a group.
std::int64_t lowest_offset(std::span<const FileNest> members);

/// Calls `visit` for each point of the loops [from, level] of a piece, with its distances in bytes
/// from the piece's first point in the file and in memory.
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
