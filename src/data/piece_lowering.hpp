// Lowering of pieces: lists of byte ranges become indexed nests.
#pragma once

#include <cstdint>
#include <span>

#include "data/indexed_nest.hpp"

namespace tranship {

/// Byte ranges of two blocks of memory: `lengths[k]` bytes at `source_offsets[k]` are copied to
/// `target_offsets[k]`. Three lists of the same length.
struct PieceLists {
  std::span<const std::int64_t> source_offsets;
  std::span<const std::int64_t> target_offsets;
  std::span<const std::int64_t> lengths;
};

/// Adds all pieces to `copy` as one group, whose nest is a single byte. The blocks begin at
/// `source_begin` and `target_begin`, in bytes from the bases. Pieces that follow each other on
/// both sides are one entry. An entry has at most `entry_bytes_max` bytes.
void lower_pieces(const PieceLists& pieces, std::int64_t source_begin, std::int64_t target_begin,
                  std::int64_t entry_bytes_max, IndexedCopy& copy);

}  // namespace tranship
