#include "base/crc32c.hpp"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
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

/// Returns the product of two polynomials modulo that of the checksum. Reflected: the highest bit
/// is the coefficient of x^0.
constexpr std::uint32_t product(std::uint32_t a, std::uint32_t b) {
  std::uint32_t sum = 0;
  for (; a != 0; a <<= 1) {
    if ((a & 0x80000000U) != 0) sum ^= b;
    b = b >> 1 ^ ((b & 1) != 0 ? polynomial : 0);
  }
  return sum;
}

/// Returns x^exponent.
constexpr std::uint32_t power(std::uint64_t exponent) {
  std::uint32_t result = 0x80000000U;  // x^0
  std::uint32_t square = 0x40000000U;  // x^1
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = product(result, square);
    square = product(square, square);
  }
  return result;
}

/// A checksum that is multiplied by it has so many zero bytes behind it.
constexpr std::uint32_t shift_by(std::uint64_t bytes) { return power(8 * bytes); }

/// The instruction takes three cycles, and a processor begins one in each: so three parts of the
/// data are read at the same time, of so many bytes each.
constexpr std::size_t part_bytes = 4096;
constexpr std::uint32_t one_part = shift_by(part_bytes);
constexpr std::uint32_t two_parts = shift_by(2 * part_bytes);

/// Returns the checksum of three parts, from those of each.
std::uint32_t join_parts(std::uint32_t first, std::uint32_t second, std::uint32_t third) {
  return product(two_parts, first) ^ product(one_part, second) ^ third;
}

/// Folding reads so many bytes at a time, and pays from so many bytes on.
constexpr std::size_t folded_bytes = 256;
constexpr std::size_t folded_least = 1024;

std::uint64_t word_at(const std::byte* data) {
  std::uint64_t word = 0;
  std::memcpy(&word, data, 8);
  return word;
}

#if defined(__x86_64__)
bool has_instruction() { return __builtin_cpu_supports("sse4.2") != 0; }

__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::span<const std::byte> data,
                                                               std::uint32_t crc) {
  for (; data.size() >= 3 * part_bytes; data = data.subspan(3 * part_bytes)) {
    std::uint64_t first = crc;
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (const std::byte *at = data.data(), *end = at + part_bytes; at < end; at += 8) {
      first = __builtin_ia32_crc32di(first, word_at(at));
      second = __builtin_ia32_crc32di(second, word_at(at + part_bytes));
      third = __builtin_ia32_crc32di(third, word_at(at + 2 * part_bytes));
    }
    crc = join_parts(static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(second),
                     static_cast<std::uint32_t>(third));
  }
  std::uint64_t wide = crc;
  for (; data.size() >= 8; data = data.subspan(8)) {
    wide = __builtin_ia32_crc32di(wide, word_at(data.data()));
  }
  crc = static_cast<std::uint32_t>(wide);
  for (const std::byte byte : data) {
    crc = __builtin_ia32_crc32qi(crc, static_cast<unsigned char>(byte));
  }
  return crc;
}

bool can_fold() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0;
}

/// Reads whole blocks of 256 bytes, at least one, and returns their checksum. Four registers hold
/// 256 bytes that have the same remainder as all that was read so far: each 16 bytes of them are
/// multiplied by x^2048, modulo the polynomial, and added to the next 256 bytes. Multiplying two
/// reflected numbers of 64 bits as the instruction does gives their product times x.
__attribute__((target("avx512f,vpclmulqdq,sse4.2"))) std::uint32_t by_folding(
    std::span<const std::byte> blocks, std::uint32_t crc) {
  constexpr std::uint64_t distance = 8 * folded_bytes;
  constexpr auto low = static_cast<long long>(std::uint64_t{power(distance + 63)} << 32);
  constexpr auto high = static_cast<long long>(std::uint64_t{power(distance - 1)} << 32);
  const __m512i factors = _mm512_set_epi64(high, low, high, low, high, low, high, low);
  const std::byte* at = blocks.data();
  const std::byte* const end = at + blocks.size();
  __m512i sums[4];
  for (std::size_t k = 0; k < 4; ++k) sums[k] = _mm512_loadu_si512(at + 64 * k);
  sums[0] =
      _mm512_xor_si512(sums[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(crc))));
  for (at += folded_bytes; at < end; at += folded_bytes) {
    for (std::size_t k = 0; k < 4; ++k) {
      const __m512i first = _mm512_clmulepi64_epi128(sums[k], factors, 0x00);
      const __m512i second = _mm512_clmulepi64_epi128(sums[k], factors, 0x11);
      const __m512i next = _mm512_loadu_si512(at + 64 * k);
      sums[k] = _mm512_xor_si512(_mm512_xor_si512(first, second), next);
    }
  }
  std::byte last[folded_bytes];
  for (std::size_t k = 0; k < 4; ++k) _mm512_storeu_si512(last + 64 * k, sums[k]);
  return by_instruction(last, 0);
}
#elif defined(__aarch64__)
bool has_instruction() { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }

__attribute__((target("+crc"))) std::uint32_t by_instruction(std::span<const std::byte> data,
                                                             std::uint32_t crc) {
  for (; data.size() >= 3 * part_bytes; data = data.subspan(3 * part_bytes)) {
    std::uint32_t second = 0;
    std::uint32_t third = 0;
    for (const std::byte *at = data.data(), *end = at + part_bytes; at < end; at += 8) {
      crc = __crc32cd(crc, word_at(at));
      second = __crc32cd(second, word_at(at + part_bytes));
      third = __crc32cd(third, word_at(at + 2 * part_bytes));
    }
    crc = join_parts(crc, second, third);
  }
  for (; data.size() >= 8; data = data.subspan(8)) crc = __crc32cd(crc, word_at(data.data()));
  for (const std::byte byte : data) crc = __crc32cb(crc, static_cast<std::uint8_t>(byte));
  return crc;
}
bool can_fold() { return false; }
std::uint32_t by_folding(std::span<const std::byte>, std::uint32_t crc) { return crc; }
#else
bool can_fold() { return false; }
std::uint32_t by_folding(std::span<const std::byte>, std::uint32_t crc) { return crc; }
bool has_instruction() { return false; }
std::uint32_t by_instruction(std::span<const std::byte>, std::uint32_t crc) { return crc; }
#endif

std::uint32_t by_tables(std::span<const std::byte> data, std::uint32_t crc) {
  static_assert(std::endian::native == std::endian::little);
  for (; data.size() >= 8; data = data.subspan(8)) {
    const std::uint64_t word = word_at(data.data()) ^ crc;
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
  static const bool folds = fast && can_fold();
  std::uint32_t crc = ~before;
  if (folds && data.size() >= folded_least) {
    const std::size_t blocks = data.size() / folded_bytes * folded_bytes;
    crc = by_folding(data.first(blocks), crc);
    data = data.subspan(blocks);
  }
  return ~(fast ? by_instruction(data, crc) : by_tables(data, crc));
}

std::uint32_t crc32c_joined(std::uint32_t first, std::uint32_t further, std::uint64_t bytes) {
  return product(shift_by(bytes), first) ^ further;
}

std::uint32_t crc32c_by_tables(std::span<const std::byte> data, std::uint32_t before) {
  return ~by_tables(data, ~before);
}

}  // namespace tranship
