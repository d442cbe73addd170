// Kernel body for a list of nests: what one thread of one block does.
#pragma once

#include "gpu/kernels/direct_body.hpp"
#include "gpu/kernels/nest_list.hpp"

namespace tranship::gpu {

/// Returns the table that a launch holds.
TRANSHIP_DEVICE NestTable table_in(const HeldTable& held) {
  NestTable table = held.table;
  table.plans = reinterpret_cast<const NestPlan*>(held.bytes);
  table.nests = reinterpret_cast<const ListedNest*>(held.bytes + held.nests_at);
  table.bands = reinterpret_cast<const NestBand*>(held.bytes + held.bands_at);
  return table;
}

/// Returns the last band that begins at the block or before it.
TRANSHIP_DEVICE std::int32_t find_band(const NestBand* bands, std::int32_t count,
                                       std::uint32_t block) {
  std::int32_t first = 0;
  for (std::int32_t end = count; end - first > 1;) {
    const std::int32_t middle = first + (end - first) / 2;
    (bands[middle].first_block <= block ? first : end) = middle;
  }
  return first;
}

/// The part of a list that a block moves.
struct ListedBlock {
  ListedNest nest;
  std::uint32_t number;  ///< number among the nest's blocks; the nest may have fewer
};

TRANSHIP_DEVICE ListedBlock find_block(const NestTable& table, std::uint32_t block) {
  const NestBand& band = table.bands[find_band(table.bands, table.bands_count, block)];
  const std::uint32_t of_band = block - band.first_block;
  const std::uint32_t number = divide(of_band, band.nests);
  const auto nest = static_cast<std::int32_t>(of_band - number * band.nests.divisor);
  return {table.nests[band.first_nest + nest], number};
}

}  // namespace tranship::gpu
