// Kernel body for a table of a record's units. It lies in shared memory, since the index into it
// differs from lane to lane.
#pragma once

#include "gpu/kernels/kernel_body.hpp"

namespace tranship::gpu {

/// First phase: copies the first `count` entries of a table to shared memory.
TRANSHIP_DEVICE void load_table(const UnitTable& table, std::uint32_t count, std::uint32_t thread,
                                std::byte* shared) {
  for (std::uint32_t k = thread; k < count; k += kernel_threads) {
    Words<2> entry{};
    entry.word[0] = table.source[k];
    write(shared + k * sizeof(std::uint16_t), entry);
  }
}

/// Where a unit of the target comes from.
struct UnitSource {
  std::uint32_t byte;  ///< byte of the source's record; 0 for a gap
  bool moves;          ///< false for a gap
};

TRANSHIP_DEVICE UnitSource find_unit(const std::byte* table, std::uint32_t unit) {
  const std::uint32_t byte = read<2>(table + unit * sizeof(std::uint16_t)).word[0];
  const bool moves = byte != shuffle_gap;
  return {moves ? byte : 0, moves};
}

}  // namespace tranship::gpu
