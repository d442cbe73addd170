#include "data/piece_lowering.hpp"

namespace tranship {

void lower_pieces(const PieceLists& pieces, std::int64_t source_begin, std::int64_t target_begin,
                  std::int64_t entry_bytes_max, IndexedCopy& copy) {
  LoopNest byte;
  byte.element_bytes = 1;
  byte.source_offset = source_begin;
  byte.target_offset = target_begin;
  copy.add_group({&byte, 1}, 1, 1, pieces.lengths.size(), entry_bytes_max, [&](std::size_t k) {
    return IndexedEntry{pieces.source_offsets[k], pieces.target_offsets[k], pieces.lengths[k]};
  });
}

}  // namespace tranship
