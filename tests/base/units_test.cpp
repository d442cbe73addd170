#include "base/units.hpp"

#include <string>

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
