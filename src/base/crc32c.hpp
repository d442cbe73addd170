// CRC-32C (Castagnoli), which storage and networks use against changed bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tranship {

/// The CRC-32C of `data` behind bytes whose CRC-32C is `before`; 0 is that of no bytes. Uses the
/// processor's instruction where it has one. Cost: some 0.05 ns a byte with it for data in a cache,
/// 1 ns without.
std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t before = 0);

/// Returns the CRC-32C of some bytes and `bytes` further ones, from the CRC-32C of either. Cost:
/// less than a microsecond.
std::uint32_t crc32c_joined(std::uint32_t first, std::uint32_t further, std::uint64_t bytes);

/// Returns the checksum, computed from tables alone: for processors without the instruction, and
/// for tests.
std::uint32_t crc32c_by_tables(std::span<const std::byte> data, std::uint32_t before = 0);

}  // namespace tranship
