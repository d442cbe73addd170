// Attributes of a run and of its variables: the last value counts, and there are not too many.
#include "staging/server/attribute_table.hpp"

#include <string>

#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

std::string text_of(const AttributeTable& table, const std::string& variable,
                    const std::string& after = {}) {
  std::string text;
  for (const Attribute& one : table.of(variable, after)) {
    EXPECT(one.variable == variable);
    text += one.key + "=" + one.value + ";";
  }
  return text;
}

}  // namespace

TEST(a_later_value_of_an_attribute_replaces_an_earlier_one) {
  AttributeTable table({});
  EXPECT(text_of(table, "") == "");
  REQUIRE(table.set({{"", "b", "1"}, {"", "a", "2"}, {"v", "a", "3"}, {"", "b", "4"}}).ok());
  EXPECT(text_of(table, "") == "a=2;b=4;");
  EXPECT(text_of(table, "v") == "a=3;");
  EXPECT(text_of(table, "", "a") == "b=4;");
  EXPECT(text_of(table, "", "b") == "" && text_of(table, "", "aa") == "b=4;");
  REQUIRE(table.set({{"", "b", ""}, {"", "c", "5"}, {"", "c", ""}, {"w", "x", ""}}).ok());
  EXPECT(text_of(table, "") == "a=2;");
  table.remove("v");
  EXPECT(text_of(table, "v") == "" && text_of(table, "") == "a=2;");
}

TEST(attributes_are_set_together_or_not_at_all) {
  Limits limits;
  limits.attribute_bytes = 100;
  AttributeTable table(limits);
  REQUIRE(table.set({{"", "a", "1"}}).ok());
  const Status full = table.set({{"", "a", "2"}, {"v", "b", std::string(100, 'x')}});
  REQUIRE(!full.ok());
  EXPECT(full.error().code == ErrorCode::out_of_memory);
  EXPECT(full.error().text().find("\"v\" are 101") != std::string::npos);
  EXPECT(full.error().text().find("staging_attribute_bytes") != std::string::npos);
  EXPECT(text_of(table, "") == "a=1;" && text_of(table, "v") == "");
  // What is replaced or deleted makes room.
  REQUIRE(table.set({{"v", "b", std::string(99, 'x')}}).ok());
  REQUIRE(table.set({{"v", "b", std::string(98, 'y')}}).ok());
  REQUIRE(table.set({{"v", "b", ""}, {"v", "c", std::string(99, 'x')}}).ok());
  EXPECT(!table.set({{"", "a", std::string(100, 'x')}}).ok());
  EXPECT(text_of(table, "") == "a=1;");
}

TEST(so_many_variables_have_attributes) {
  Limits limits;
  limits.variables = 2;
  AttributeTable table(limits);
  REQUIRE(table.set({{"", "a", "1"}, {"u", "a", "1"}}).ok());
  const Status full = table.set({{"v", "a", "1"}, {"w", "a", "1"}});
  REQUIRE(!full.ok());
  EXPECT(full.error().text().find("staging_variables") != std::string::npos);
  EXPECT(text_of(table, "v") == "");
  REQUIRE(table.set({{"v", "a", "1"}, {"w", "a", ""}}).ok());
  REQUIRE(table.set({{"u", "b", "1"}, {"", "b", "1"}}).ok());
  EXPECT(!table.set({{"w", "a", "1"}}).ok());
  REQUIRE(table.set({{"u", "a", ""}, {"u", "b", ""}}).ok());
  EXPECT(table.set({{"w", "a", "1"}}).ok());
}

TEST(what_the_data_of_a_variable_mean_has_one_value) {
  AttributeTable table{Limits{}};
  REQUIRE(table.set({{"energy", ":dims", "[\"y\",\"x\"]"}, {"energy", "units", "1"}}).ok());
  REQUIRE(table.set({{"energy", ":dims", "[\"y\",\"x\"]"}}).ok());
  const Status other = table.set({{"energy", "units", "2"}, {"energy", ":dims", "[\"x\",\"y\"]"}});
  REQUIRE(!other.ok());
  EXPECT(other.error().code == ErrorCode::invalid_argument);
  EXPECT(other.error().message == "\"energy\" has the dimensions [\"y\",\"x\"], not [\"x\",\"y\"]");
  EXPECT_EQ(text_of(table, "energy"), ":dims=[\"y\",\"x\"];units=1;");  // all or none
  EXPECT(!table.set({{"rho", ":coords:x", "1"}, {"rho", ":coords:x", "2"}}).ok());
  EXPECT_EQ(text_of(table, "rho"), "");
  table.remove("energy");
  REQUIRE(table.set({{"energy", ":dims", "[\"x\",\"y\"]"}}).ok());
  EXPECT_EQ(text_of(table, "energy"), ":dims=[\"x\",\"y\"];");
}
