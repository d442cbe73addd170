// CRC-32C (Castagnoli), which storage and networks use against changed bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tranship {

/// The CRC-32C of `data` behind bytes whose CRC-32C is `before`; 0 is that of no bytes. Uses the
/// processor's instruction where it has one. Cost: some 0.1 ns a byte with it, 1 ns without.
std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t before = 0);

/// Returns the checksum, computed from tables alone: for processors without the instruction, and
/// for tests.
std::uint32_t crc32c_by_tables(std::span<const std::byte> data, std::uint32_t before = 0);

}  // namespace tranship
