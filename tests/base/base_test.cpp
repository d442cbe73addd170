#include <string>

#include "base/random.hpp"
#include "base/trace.hpp"
#include "base/units.hpp"
#include "support/test.hpp"

using namespace tranship;

TEST(units_are_written_as_people_read_them) {
  EXPECT_EQ(format_bytes(12), std::string("12 B"));
  EXPECT_EQ(format_bytes(65536), std::string("64 KiB"));
  EXPECT_EQ(format_bytes(std::int64_t{3} << 29), std::string("1.5 GiB"));
  EXPECT_EQ(format_rate(12.34e9), std::string("12.3 GB/s"));
  EXPECT_EQ(format_rate(5e6), std::string("5.0 MB/s"));
  EXPECT_EQ(format_seconds(3.2e-6), std::string("3.2 us"));
  EXPECT_EQ(format_seconds(2.5), std::string("2.50 s"));
}

TEST(a_seed_gives_the_same_numbers_everywhere) {
  Random random(42);
  EXPECT_EQ(random.next(), 13679457532755275413u);  // SplitMix64's published sequence
  for (int k = 0; k < 1000; ++k) {
    const auto number = random.between(-3, 3);
    EXPECT(number >= -3 && number <= 3);
  }
}

TEST(a_trace_is_bounded_and_counts_what_it_drops) {
  Trace trace(2);
  for (int k = 0; k < 5; ++k) trace.add({"path", "channel", k * 1000, k * 1000 + 500, 10, k, 0});
  EXPECT_EQ(trace.spans().size(), 2u);
  const std::string json = trace.to_json(7, "test");
  EXPECT(json.find("\"dropped_spans\":3") != std::string::npos);
  EXPECT(json.find("\"ph\":\"X\"") != std::string::npos);
}
