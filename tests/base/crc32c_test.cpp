// Both implementations of the checksum, compared with the standard.
#include "base/crc32c.hpp"

#include <random>
#include <string_view>
#include <vector>

#include "support/test.hpp"

using namespace tranship;

namespace {

/// Computes the checksum bit by bit, from the definition of the polynomial.
std::uint32_t slow(std::span<const std::byte> data) {
  std::uint32_t crc = ~0U;
  for (const std::byte byte : data) {
    crc ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78U : 0);
  }
  return ~crc;
}

}  // namespace

TEST(checksums_are_those_of_rfc_3720) {
  const std::string_view digits = "123456789";
  EXPECT_EQ(crc32c(std::as_bytes(std::span(digits))), 0xe3069283U);
  std::vector<std::byte> bytes(32);
  EXPECT_EQ(crc32c(bytes), 0x8a9136aaU);
  for (std::byte& byte : bytes) byte = std::byte{0xff};
  EXPECT_EQ(crc32c(bytes), 0x62a8ab43U);
  EXPECT_EQ(crc32c({}), 0U);
}

TEST(checksums_of_pieces_and_of_both_ways_agree) {
  std::mt19937_64 random(1);
  for (int k = 0; k < 500; ++k) {
    // Some are long enough for several parts at a time.
    std::vector<std::byte> bytes(random() % (k % 20 == 0 ? 40'000 : 300));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    const std::span<const std::byte> all(bytes);
    const std::size_t cut = bytes.empty() ? 0 : random() % bytes.size();
    const std::uint32_t right = slow(all);
    EXPECT_EQ(crc32c(all), right);
    EXPECT_EQ(crc32c_by_tables(all), right);
    EXPECT_EQ(crc32c(all.subspan(cut), crc32c(all.first(cut))), right);
    EXPECT_EQ(crc32c_by_tables(all.subspan(cut), crc32c(all.first(cut))), right);
    const auto further = all.subspan(cut);
    EXPECT_EQ(crc32c_joined(crc32c(all.first(cut)), crc32c(further), further.size()), right);
  }
}
