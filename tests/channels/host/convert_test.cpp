// Conversions in host memory: runs and nests convert each number as if it were alone.
#include "channels/host/convert.hpp"

#include <cstring>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "channels/host/copy.hpp"
#include "data/lowering.hpp"
#include "support/conversions.hpp"
#include "support/test.hpp"

using namespace tranship;
using test::convert_slowly;
using test::random_bytes;

TEST(runs_convert_each_number_as_if_it_were_alone) {
  for (int from = 0; from < number_kinds; ++from) {
    for (int to = 0; to < number_kinds; ++to) {
      Random random(static_cast<std::uint64_t>(from * number_kinds + to));
      const Conversion conversion{{static_cast<NumberKind>(from), false},
                                  {static_cast<NumberKind>(to), false}};
      constexpr std::int64_t count = 1500;
      const auto source = random_bytes(random, count * conversion.source_bytes());
      std::vector<std::byte> expected(static_cast<std::size_t>(count * conversion.target_bytes()));
      LoopNest nest{count * conversion.target_bytes(), 0, 0, 0, {}, conversion};
      convert_slowly(nest, 0, source.data(), expected.data());
      for (const bool cold : {false, true}) {
        std::vector<std::byte> result(expected.size());
        host::convert_run(conversion, source.data(), result.data(), count, cold);
        EXPECT(result == expected);
      }
    }
  }
}

TEST(byte_orders_change_with_the_numbers) {
  const float value = 1.5f;
  std::byte source[4];
  std::memcpy(source, &value, 4);
  std::byte target[8];
  host::convert_run({{NumberKind::float32, false}, {NumberKind::float64, true}}, source, target, 1,
                    false);
  const unsigned char expected[8] = {0x3f, 0xf8, 0, 0, 0, 0, 0, 0};
  EXPECT(std::memcmp(target, expected, 8) == 0);
  const Conversion swapped{{NumberKind::float32, false}, {NumberKind::float32, true}};
  host::convert_run(swapped, source, target, 1, false);
  for (int k = 0; k < 4; ++k) EXPECT(target[k] == source[3 - k]);
}

TEST(nests_convert_each_number_as_if_it_were_alone) {
  for (std::uint64_t seed = 0; seed < test::seed_count(3000); ++seed) {
    Random random(seed);
    const test::ConvertingNest one =
        test::random_converting_nest(random, random.chance(0.1) ? 30000 : 3000);
    const auto source = random_bytes(random, one.source_bytes);
    const auto before = random_bytes(random, one.target_bytes);
    auto expected = before;
    auto result = before;
    convert_slowly(one.nest, one.nest.rank, source.data() + one.nest.source_offset,
                   expected.data() + one.nest.target_offset);
    LoopNest nest = one.nest;
    if (random.chance(0.7)) coalesce(nest);
    copy_nests({&nest, 1}, source.data(), result.data(), random.chance(0.3));
    EXPECT(result == expected);
    if (result != expected) {
      test::record_failure(__FILE__, __LINE__, "seed " + std::to_string(seed));
      break;
    }
  }
}

TEST(plain_and_converting_nests_go_in_one_request) {
  Random random(7);
  const auto source = random_bytes(random, 40000);
  const Conversion conversion{{NumberKind::float32, false}, {NumberKind::float64, false}};
  const LoopNest nests[] = {{4, 0, 0, 1, {{{1000, 8, 16}}}, {}},
                            {8, 4, 8, 1, {{{1000, 8, 16}}}, conversion},
                            {4, 16000, 32000, 1, {{{1000, 12, 4}}}, {}}};
  std::vector<std::byte> expected(40000);
  auto result = expected;
  for (const LoopNest& nest : nests) {
    if (nest.conversion) {
      convert_slowly(nest, 1, source.data() + nest.source_offset,
                     expected.data() + nest.target_offset);
    } else {
      copy_nests({&nest, 1}, source.data(), expected.data(), false);
    }
  }
  copy_nests(nests, source.data(), result.data(), false);
  EXPECT(result == expected);
}
