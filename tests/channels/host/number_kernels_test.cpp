// Loops of each instruction set against the functions for single numbers.
#include "channels/host/number_kernels.hpp"

#include <cstring>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "support/conversions.hpp"
#include "support/test.hpp"

using namespace tranship;
using host::NumberKernels;
using host::NumberLoop;

namespace {

constexpr const char* sets[] = {"avx2", "avx512"};

/// Returns numbers of some bytes: all patterns of one and two bytes, random ones of others, of
/// which many are NaNs, infinities and subnormal.
std::vector<std::byte> patterns(std::int64_t bytes, std::int64_t count) {
  Random random(static_cast<std::uint64_t>(bytes));
  std::vector<std::byte> all = test::random_bytes(random, bytes * count);
  for (std::int64_t k = 0; k < count; ++k) {
    if (bytes <= 2) {
      std::memcpy(all.data() + k * bytes, &k, static_cast<std::size_t>(bytes));
      continue;
    }
    std::byte* const last = all.data() + (k + 1) * bytes - 1;
    if (random.chance(0.2)) last[0] |= std::byte{0x7f};
    if (random.chance(0.2)) last[-1] |= std::byte{0xf0};
    if (random.chance(0.1))
      std::memset(all.data() + k * bytes, 0, static_cast<std::size_t>(bytes / 2));
    if (random.chance(0.3)) last[0] = std::byte{0x38} | (last[0] & std::byte{0x87});
  }
  return all;
}

/// Compares both loops for counts that end within vectors, and for all numbers.
void compare(NumberLoop loop, NumberLoop expected_loop, std::int64_t source_bytes,
             std::int64_t target_bytes, const std::string& what) {
  if (loop == expected_loop) return;
  const std::int64_t all = 1 << 16;
  const auto source = patterns(source_bytes, all);
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{7}, std::int64_t{83}, all}) {
    std::vector<std::byte> expected(static_cast<std::size_t>(all * target_bytes));
    std::vector<std::byte> result = expected;
    expected_loop(source.data(), expected.data(), count);
    loop(source.data(), result.data(), count);
    if (result == expected) continue;
    test::record_failure(__FILE__, __LINE__, what);
    return;
  }
}

}  // namespace

TEST(every_instruction_set_decodes_and_encodes_alike) {
  const NumberKernels& plain = *host::number_kernels_named("baseline");
  for (const char* const name : sets) {
    const NumberKernels* const set = host::number_kernels_named(name);
    if (set == nullptr) continue;
    for (std::size_t kind = 0; kind < number_kinds; ++kind) {
      const auto number = static_cast<NumberKind>(kind);
      if (is_complex(number)) continue;
      const std::string what = std::string(name) + " kind " + std::to_string(kind);
      const NumberKind carried = kind_of(host::carrier_of(number, NumberKind::float32));
      compare(set->decode[kind], plain.decode[kind], bytes_of(number), bytes_of(carried), what);
      for (std::size_t carrier = 0; carrier < host::carriers; ++carrier) {
        const NumberKind from = kind_of(static_cast<host::Carrier>(carrier));
        compare(set->encode[carrier][kind], plain.encode[carrier][kind], bytes_of(from),
                bytes_of(number), what + " from carrier " + std::to_string(carrier));
      }
    }
  }
}

TEST(tables_hold_their_results_in_planes) {
  const NumberKernels* const set = host::number_kernels_named("avx512");
  if (set == nullptr) return;
  Random random(3);
  const auto source = test::random_bytes(random, 1000);
  for (std::size_t bytes = 1; bytes <= 8; ++bytes) {
    if (set->look_up[bytes] == nullptr) continue;
    alignas(64) std::byte table[8 * 256];
    const auto content = test::random_bytes(random, sizeof table);
    std::memcpy(table, content.data(), sizeof table);
    for (const std::size_t count : {std::size_t{1}, std::size_t{64}, std::size_t{1000}}) {
      std::vector<std::byte> result(count * bytes);
      set->look_up[bytes](table, source.data(), result.data(), static_cast<std::int64_t>(count));
      for (std::size_t k = 0; k < result.size(); ++k) {
        const auto pattern = static_cast<std::size_t>(source[k / bytes]);
        EXPECT(result[k] == table[k % bytes * 256 + pattern]);
      }
    }
  }
}
