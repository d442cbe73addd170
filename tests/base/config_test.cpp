#include "base/config.hpp"

#include <cctype>
#include <map>
#include <string>

#include "support/test.hpp"

using namespace tranship;

namespace {

ReadVariable environment(const std::map<std::string, std::string>& variables) {
  return [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

}  // namespace

TEST(settings_come_from_the_environment) {
  const std::map<std::string, std::string> variables{
      {"TRANSHIP_THREADS", "3"}, {"TRANSHIP_SLOT_BYTES", "64KiB"}, {"HOME", "/home/me"}};
  const Config config = config_from_environment(environment(variables)).value();
  EXPECT_EQ(config.threads, 3);
  EXPECT_EQ(config.slot_bytes, 65536);
  EXPECT_EQ(config.cache_folder, std::string("/home/me/.cache/tranship"));
  EXPECT_EQ(config.listen, std::string());  // by default nothing listens on a network
}

TEST(temporary_files_go_where_they_can_be_written) {
  const std::map<std::string, std::string> nothing;
  EXPECT_EQ(config_from_environment(environment(nothing)).value().temporary_folder,
            std::string("/tmp"));
  const std::map<std::string, std::string> variables{{"TMPDIR", "/no/such/folder"},
                                                     {"TEMP", "/dev/shm"}};
  EXPECT_EQ(config_from_environment(environment(variables)).value().temporary_folder,
            std::string("/dev/shm"));
}

TEST(a_setting_that_cannot_be_read_names_its_variable) {
  const std::map<std::string, std::string> variables{{"TRANSHIP_THREADS", "many"}};
  const auto config = config_from_environment(environment(variables));
  REQUIRE(!config.ok());
  EXPECT(config.error().text().find("TRANSHIP_THREADS") != std::string::npos);
}

TEST(every_setting_says_where_it_came_from) {
  const std::map<std::string, std::string> variables{{"TRANSHIP_PLANNER", "spsl"}};
  const Config config = config_from_environment(environment(variables)).value();
  int from_variable = 0;
  for (const ConfigEntry& entry : describe(config, environment(variables))) {
    EXPECT(!entry.help.empty());
    if (entry.source != "default") {
      ++from_variable;
      EXPECT_EQ(entry.source, std::string("TRANSHIP_PLANNER"));
      EXPECT_EQ(entry.value, std::string("spsl"));
    }
  }
  EXPECT_EQ(from_variable, 1);
}

TEST(sizes_are_read_with_units) {
  EXPECT_EQ(parse_bytes("4096").value(), 4096);
  EXPECT_EQ(parse_bytes("64MiB").value(), 64 << 20);
  EXPECT_EQ(parse_bytes("1.5 GiB").value(), std::int64_t{3} << 29);
  EXPECT_EQ(parse_bytes("2GB").value(), 2000000000);
  for (const char* bad : {"", "MiB", "12 parsecs", "-1", "nan"}) EXPECT(!parse_bytes(bad).ok());
}

TEST(numbers_out_of_reason_are_refused) {
  const std::map<std::string, std::string> nothing;
  const auto defaults = describe(Config{}, environment(nothing));
  for (const ConfigEntry& entry : defaults) {
    std::string variable = "TRANSHIP_";
    for (const char letter : entry.name)
      variable += static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
    const std::map<std::string, std::string> same{{variable, entry.value}};
    EXPECT(entry.value == "(set)" || config_from_environment(environment(same)).ok());
    const bool number = parse_bytes(entry.value).ok() || entry.value == "-1";
    if (!number) continue;
    for (const char* bad : {"9000000000000000000", "-2", "1e30", "-9223372036854775808"}) {
      const std::map<std::string, std::string> variables{{variable, bad}};
      const auto config = config_from_environment(environment(variables));
      REQUIRE(!config.ok());
      EXPECT(config.error().text().find(variable) != std::string::npos);
    }
  }
}
