// Attributes of a run and of its variables.
#include "staging/server/attribute_table.hpp"

#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

std::string value_of(const AttributeTable& table, const std::string& variable,
                     const std::string& key) {
  for (const Attribute& one : table.of(variable)) {
    if (one.key == key) return one.value;
  }
  return "";
}

}  // namespace

TEST(a_later_value_of_an_attribute_replaces_an_earlier_one) {
  AttributeTable table{Limits{}};
  REQUIRE(table.set({{"", "code", "1"}, {"energy", "units", "2"}}).ok());
  REQUIRE(table.set({{"energy", "units", "3"}, {"energy", "name", "4"}}).ok());
  EXPECT_EQ(value_of(table, "", "code"), "1");
  EXPECT_EQ(value_of(table, "energy", "units"), "3");
  REQUIRE(table.set({{"energy", "units", ""}}).ok());
  EXPECT_EQ(value_of(table, "energy", "units"), "");
  EXPECT_EQ(value_of(table, "energy", "name"), "4");
}

TEST(what_the_data_of_a_variable_mean_has_one_value) {
  AttributeTable table{Limits{}};
  REQUIRE(table.set({{"energy", ":dims", "[\"y\",\"x\"]"}, {"energy", "units", "1"}}).ok());
  REQUIRE(table.set({{"energy", ":dims", "[\"y\",\"x\"]"}}).ok());
  const Status other = table.set({{"energy", "units", "2"}, {"energy", ":dims", "[\"x\",\"y\"]"}});
  REQUIRE(!other.ok());
  EXPECT(other.error().code == ErrorCode::invalid_argument);
  EXPECT(other.error().message == "\"energy\" has the dimensions [\"y\",\"x\"], not [\"x\",\"y\"]");
  EXPECT_EQ(value_of(table, "energy", "units"), "1");  // all or none
  EXPECT(!table.set({{"rho", ":coords:x", "1"}, {"rho", ":coords:x", "2"}}).ok());
  EXPECT(table.of("rho").empty());
  table.remove("energy");
  REQUIRE(table.set({{"energy", ":dims", "[\"x\",\"y\"]"}}).ok());
  EXPECT_EQ(value_of(table, "energy", ":dims"), "[\"x\",\"y\"]");
}
