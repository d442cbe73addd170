#include "base/crc32c.hpp"

#include <array>
#include <bit>
#include <cstring>

#if defined(__aarch64__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace tranship {
namespace {

constexpr std::uint32_t polynomial = 0x82f63b78;  // reflected

/// tables[k][b]: the CRC of byte b with k zero bytes behind it.
constexpr auto make_tables() {
  std::array<std::array<std::uint32_t, 256>, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? polynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < tables.size(); ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t crc = tables[k - 1][byte];
      tables[k][byte] = crc >> 8 ^ tables[0][crc & 0xff];
    }
  }
  return tables;
}

constexpr auto tables = make_tables();

#if defined(__x86_64__)
bool has_instruction() { return __builtin_cpu_supports("sse4.2") != 0; }

__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::span<const std::byte> data,
                                                               std::uint32_t crc) {
  std::uint64_t wide = crc;
  for (; data.size() >= 8; data = data.subspan(8)) {
    std::uint64_t word = 0;
    std::memcpy(&word, data.data(), 8);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  crc = static_cast<std::uint32_t>(wide);
  for (const std::byte byte : data) {
    crc = __builtin_ia32_crc32qi(crc, static_cast<unsigned char>(byte));
  }
  return crc;
}
#elif defined(__aarch64__)
bool has_instruction() { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }

__attribute__((target("+crc"))) std::uint32_t by_instruction(std::span<const std::byte> data,
                                                             std::uint32_t crc) {
  for (; data.size() >= 8; data = data.subspan(8)) {
    std::uint64_t word = 0;
    std::memcpy(&word, data.data(), 8);
    crc = __crc32cd(crc, word);
  }
  for (const std::byte byte : data) crc = __crc32cb(crc, static_cast<std::uint8_t>(byte));
  return crc;
}
#else
bool has_instruction() { return false; }
std::uint32_t by_instruction(std::span<const std::byte>, std::uint32_t crc) { return crc; }
#endif

std::uint32_t by_tables(std::span<const std::byte> data, std::uint32_t crc) {
  static_assert(std::endian::native == std::endian::little);
  for (; data.size() >= 8; data = data.subspan(8)) {
    std::uint64_t word = 0;
    std::memcpy(&word, data.data(), 8);
    word ^= crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= tables[7 - k][word >> (8 * k) & 0xff];
  }
  for (const std::byte byte : data) {
    crc = crc >> 8 ^ tables[0][(crc ^ static_cast<std::uint32_t>(byte)) & 0xff];
  }
  return crc;
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t before) {
  static const bool fast = has_instruction();
  return ~(fast ? by_instruction(data, ~before) : by_tables(data, ~before));
}

std::uint32_t crc32c_by_tables(std::span<const std::byte> data, std::uint32_t before) {
  return ~by_tables(data, ~before);
}

}  // namespace tranship
