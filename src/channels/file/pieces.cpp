#include "channels/file/pieces.hpp"

#include <algorithm>

namespace tranship::file {
namespace {

/// A read may fetch this many times the bytes needed, in whole pages, if it saves I/Os.
constexpr std::int64_t waste_factor = 4;

const FileLoop& loop_of(std::span<const FileNest> members, int level) {
  return members.front().loops[static_cast<std::size_t>(level)];
}

bool same_loops(const FileNest& a, const FileNest& b) {
  if (a.rank != b.rank) return false;
  for (std::size_t k = 0; k < static_cast<std::size_t>(a.rank); ++k) {
    if (a.loops[k].extent != b.loops[k].extent) return false;
    if (a.loops[k].file_stride != b.loops[k].file_stride) return false;
  }
  return true;
}

/// One I/O over the loops below some level and some indices of that loop.
struct IoShape {
  std::int64_t bytes = 0;         ///< from the first byte to the last
  std::int64_t payload = 0;       ///< bytes of the group among them
  std::int64_t pages = 1;         ///< pages that are read in any case
  bool large_runs_apart = false;  ///< there is a hole between runs that are large themselves
};

IoShape shape_of(std::span<const FileNest> members, const PieceLimits& limits, int level,
                 std::int64_t count) {
  IoShape shape;
  shape.bytes = span_bytes(members, level) + (count - 1) * loop_of(members, level).file_stride;
  for (const FileNest& member : members) shape.payload += member.element_bytes;
  for (int k = 0; k <= level; ++k) {
    const FileLoop& loop = loop_of(members, k);
    const std::int64_t extent = k == level ? count : loop.extent;
    shape.payload *= extent;
    if (loop.file_stride >= limits.page_bytes) shape.pages *= extent;
    const std::int64_t inner_bytes = span_bytes(members, k);
    if (extent > 1 && loop.file_stride > inner_bytes && inner_bytes >= limits.large_bytes) {
      shape.large_runs_apart = true;
    }
  }
  return shape;
}

bool is_one_io(const IoShape& shape, const PieceLimits& limits, Direction direction) {
  if (shape.bytes > limits.window_bytes) return false;
  if (direction == Direction::write) return shape.payload == shape.bytes;
  if (shape.large_runs_apart) return false;
  return shape.bytes / waste_factor <= std::max(shape.payload, shape.pages * limits.page_bytes);
}

/// Returns the number of indices of loop `level` that fit a window.
std::int64_t block_in_window(std::span<const FileNest> members, const PieceLimits& limits,
                             int level) {
  const FileLoop& loop = loop_of(members, level);
  const std::int64_t left = limits.window_bytes - span_bytes(members, level);
  if (left < 0) return 0;
  if (loop.file_stride == 0) return loop.extent;
  return std::min(loop.extent, 1 + left / loop.file_stride);
}

/// Returns the size of equal blocks of at most `block` indices, in whole pages where that costs
/// little.
std::int64_t balanced(std::int64_t block, const FileLoop& loop, const PieceLimits& limits) {
  const std::int64_t blocks = (loop.extent + block - 1) / block;
  if (blocks <= 1 || loop.file_stride <= 0) return block;
  const std::int64_t even = (loop.extent + blocks - 1) / blocks;
  const std::int64_t in_stride = loop.file_stride & -loop.file_stride;
  const std::int64_t step = std::max<std::int64_t>(1, limits.page_bytes / in_stride);
  const std::int64_t rounded = (even + step - 1) / step * step;
  return rounded <= block ? rounded : even;
}

/// Finds the largest single I/O: loops [0, dense) with a block of the last one. Returns false if
/// there is none.
bool find_io(std::span<const FileNest> members, const PieceLimits& limits, Direction direction,
             PiecePlan& plan) {
  for (int level = members.front().rank; level >= 0; --level) {
    const FileLoop& loop = loop_of(members, level);
    const std::int64_t block = block_in_window(members, limits, level);
    // Where a loop is written in blocks, the loops below it must have no holes either: a block may
    // end anywhere in them.
    const bool solid = direction == Direction::read || block == loop.extent ||
                       loop.file_stride == span_bytes(members, level);
    if (block >= 2 && solid &&
        is_one_io(shape_of(members, limits, level, block), limits, direction)) {
      plan.level = level;
      plan.block = balanced(block, loop, limits);
      plan.dense = level + 1;
      return true;
    }
    if (block >= 1 && is_one_io(shape_of(members, limits, level, 1), limits, direction)) {
      plan.level = level;
      plan.block = 1;
      plan.dense = level;
      return true;
    }
  }
  return false;
}

/// Puts as many I/Os of `io_bytes` into a piece as a window holds.
void pack(std::span<const FileNest> members, const PieceLimits& limits, std::int64_t io_bytes,
          PiecePlan& plan) {
  std::int64_t packed_bytes = std::max<std::int64_t>(io_bytes, 1);
  const int rank = members.front().rank;
  while (plan.level < rank) {
    const std::int64_t extent = loop_of(members, plan.level).extent;
    const std::int64_t fit = limits.window_bytes / packed_bytes;
    if (fit < extent) {
      plan.block = std::max<std::int64_t>(fit, 1);
      return;
    }
    packed_bytes *= extent;
    ++plan.level;
  }
  plan.block = 1;
}

void count_pieces(std::span<const FileNest> members, PiecePlan& plan) {
  const FileNest& first = members.front();
  const std::int64_t extent = first.loops[static_cast<std::size_t>(plan.level)].extent;
  plan.pieces = (extent + plan.block - 1) / plan.block;
  for (int k = plan.level + 1; k < first.rank; ++k) {
    plan.pieces *= first.loops[static_cast<std::size_t>(k)].extent;
  }
  if (plan.bytes_block > 0) {
    // An element may start anywhere in its first block, and so may reach into one block more.
    plan.pieces *= (first.element_bytes - 1) / plan.bytes_block + 2;
  }
}

/// Returns the division of exactly these nests; one without pieces if they are better carried
/// apart.
PiecePlan plan_members(std::span<const FileNest> members, const PieceLimits& limits,
                       Direction direction) {
  PiecePlan plan;
  plan.members = members.size();
  const bool single = members.size() == 1;
  if (single && members.front().element_bytes > limits.window_bytes) {
    plan.bytes_block = limits.window_bytes;
    plan.large = true;
    count_pieces(members, plan);
    return plan;
  }
  if (!find_io(members, limits, direction, plan)) return PiecePlan{};
  const IoShape io = shape_of(members, limits, plan.level, plan.block);
  plan.large = io.bytes == io.payload && io.bytes >= limits.large_bytes;
  plan.io_bytes = io.bytes;
  plan.method = single && plan.dense == 0 ? PieceMethod::straight : PieceMethod::image;
  if (plan.dense == plan.level && io.bytes < limits.large_bytes) {
    pack(members, limits, io.bytes, plan);
  }
  count_pieces(members, plan);
  return plan;
}

PiecePlan plan_io(std::span<const FileNest> nests, const PieceLimits& limits, Direction direction) {
  std::size_t members = 1;
  std::int64_t lowest = nests.front().file_offset;
  std::int64_t highest = lowest + nests.front().element_bytes;
  while (members < nests.size() && members < group_members_max) {
    const FileNest& next = nests[members];
    if (next.empty() || !same_loops(nests.front(), next)) break;
    lowest = std::min(lowest, next.file_offset);
    highest = std::max(highest, next.file_offset + next.element_bytes);
    if (highest - lowest > limits.window_bytes) break;
    ++members;
  }
  if (members > 1) {
    const PiecePlan joint = plan_members(nests.first(members), limits, direction);
    if (joint.pieces > 0) return joint;
  }
  PiecePlan plan = plan_members(nests.first(1), limits, direction);
  plan.apart = members - 1;
  return plan;
}

/// Returns the division of the members of `io`, the front of `nests`, as a group that is read
/// through a map.
PiecePlan plan_viewed(std::span<const FileNest> nests, const PieceLimits& limits,
                      const PiecePlan& io) {
  const std::span<const FileNest> members = nests.first(io.members);
  PiecePlan plan;
  plan.method = PieceMethod::viewed;
  plan.members = io.members;
  std::int64_t point_bytes = 0;
  for (const FileNest& member : members) {
    point_bytes += std::max(member.element_bytes, viewed_run_bytes);
  }
  std::int64_t block_bytes = point_bytes;
  const int rank = members.front().rank;
  while (plan.level < rank) {
    const std::int64_t extent = loop_of(members, plan.level).extent;
    const std::int64_t fit = std::max<std::int64_t>(limits.view_bytes / block_bytes, 1);
    if (fit < extent) {
      plan.block = fit;
      break;
    }
    block_bytes *= extent;
    ++plan.level;
  }
  plan.dense = plan.level + 1;
  plan.whole = plan.level == rank;
  if (plan.whole) plan.members = 1;
  count_pieces(members.first(plan.members), plan);
  return plan;
}

}  // namespace

bool FileNest::empty() const {
  if (element_bytes <= 0) return true;
  for (std::size_t k = 0; k < static_cast<std::size_t>(rank); ++k) {
    if (loops[k].extent <= 0) return true;
  }
  return false;
}

FileNest from_file(const LoopNest& nest, std::int64_t file_base, Direction direction) {
  const bool reading = direction == Direction::read;
  FileNest result;
  result.element_bytes = nest.element_bytes;
  result.file_offset = file_base + (reading ? nest.source_offset : nest.target_offset);
  result.memory_offset = reading ? nest.target_offset : nest.source_offset;
  for (std::size_t k = 0; k < static_cast<std::size_t>(nest.rank); ++k) {
    const Loop& loop = nest.loops[k];
    if (loop.extent == 1) continue;
    FileLoop seen{loop.extent, reading ? loop.source_stride : loop.target_stride,
                  reading ? loop.target_stride : loop.source_stride};
    if (seen.file_stride < 0) {
      result.file_offset += seen.file_stride * (seen.extent - 1);
      result.memory_offset += seen.memory_stride * (seen.extent - 1);
      seen.file_stride = -seen.file_stride;
      seen.memory_stride = -seen.memory_stride;
    }
    auto at = static_cast<std::size_t>(result.rank++);
    for (; at > 0 && result.loops[at - 1].file_stride > seen.file_stride; --at) {
      result.loops[at] = result.loops[at - 1];
    }
    result.loops[at] = seen;
  }
  while (result.rank > 0 && result.loops[0].file_stride == result.element_bytes &&
         result.loops[0].memory_stride == result.element_bytes) {
    result.element_bytes *= result.loops[0].extent;
    std::move(result.loops.begin() + 1, result.loops.begin() + result.rank, result.loops.begin());
    --result.rank;
  }
  result.loops[static_cast<std::size_t>(result.rank)] = FileLoop{};
  return result;
}

std::int64_t lowest_offset(std::span<const FileNest> members) {
  std::int64_t lowest = members.front().file_offset;
  for (const FileNest& member : members) lowest = std::min(lowest, member.file_offset);
  return lowest;
}

std::int64_t span_bytes(std::span<const FileNest> members, int level) {
  std::int64_t highest = 0;
  for (const FileNest& member : members) {
    highest = std::max(highest, member.file_offset + member.element_bytes);
  }
  std::int64_t bytes = highest - lowest_offset(members);
  for (int k = 0; k < level; ++k) {
    const FileLoop& loop = loop_of(members, k);
    bytes += (loop.extent - 1) * loop.file_stride;
  }
  return bytes;
}

PiecePlan plan_pieces(std::span<const FileNest> nests, const PieceLimits& limits,
                      Direction direction) {
  const PiecePlan io = plan_io(nests, limits, direction);
  if (!limits.viewed || io.large) return io;
  const bool reads = direction == Direction::read;
  // To store into a page that is not in the cache, the kernel reads it first; whole ones need not
  // be read to be written.
  const bool suits = limits.cached || (!reads && io.io_bytes < limits.page_bytes);
  return suits ? plan_viewed(nests, limits, io) : io;
}

std::int64_t PiecePosition::memory_offset(const FileNest& member) const {
  std::int64_t offset = member.memory_offset;
  for (std::size_t k = 0; k < static_cast<std::size_t>(member.rank); ++k) {
    offset += start[k] * member.loops[k].memory_stride;
  }
  return offset;
}

PiecePosition piece_of(std::span<const FileNest> members, const PiecePlan& plan,
                       std::int64_t index) {
  PiecePosition piece;
  const FileNest& first = members.front();
  std::int64_t bytes_index = 0;
  if (plan.bytes_block > 0) {
    const std::int64_t parts = (first.element_bytes - 1) / plan.bytes_block + 2;
    bytes_index = index % parts;
    index /= parts;
  }
  for (int k = plan.level; k <= first.rank; ++k) {
    const auto at = static_cast<std::size_t>(k);
    const FileLoop& loop = first.loops[at];
    const std::int64_t step = k == plan.level ? plan.block : 1;
    const std::int64_t steps = (loop.extent + step - 1) / step;
    piece.start[at] = index % steps * step;
    index /= steps;
    piece.file_shift += piece.start[at] * loop.file_stride;
    if (k == plan.level) piece.count = std::min(step, loop.extent - piece.start[at]);
  }
  if (plan.bytes_block > 0) {
    const std::int64_t offset = first.file_offset + piece.file_shift;
    const std::int64_t begin =
        offset / plan.bytes_block * plan.bytes_block - offset + bytes_index * plan.bytes_block;
    piece.bytes_begin = std::clamp<std::int64_t>(begin, 0, first.element_bytes);
    piece.bytes_end = std::clamp<std::int64_t>(begin + plan.bytes_block, 0, first.element_bytes);
  } else {
    piece.bytes_end = first.element_bytes;
  }
  return piece;
}

}  // namespace tranship::file
