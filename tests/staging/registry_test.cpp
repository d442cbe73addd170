// What the keeper of a variable knows of those who put to it.
#include "staging/registry.hpp"

#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

PutRequest put_of(const std::string& variable) {
  return {variable, 1, *Box::make({0}, {4}), "f8", 8};
}

Facts facts_of(const Registry& registry, const std::string& variable) {
  const auto facts = registry.facts(variable);
  REQUIRE(facts.has_value());
  return *facts;
}

}  // namespace

TEST(the_end_of_a_producer_is_told_from_its_death) {
  Registry registry;
  EXPECT(!registry.facts("energy").has_value());
  for (const Owner owner : {1U, 7U, 7U}) REQUIRE(registry.declare(owner, put_of("energy")).ok());
  EXPECT_EQ(facts_of(registry, "energy").producers, 2);
  EXPECT_EQ(registry.gone(1, true).count("energy"), 1U);
  EXPECT(registry.gone(1, true).empty());
  (void)registry.gone(7, false);
  EXPECT_EQ(facts_of(registry, "energy").producers, 0);
  EXPECT(never(facts_of(registry, "energy"), "it lacks").code == ErrorCode::peer_lost);
  REQUIRE(registry.declare(9, put_of("energy")).ok());  // somebody goes on where it ended
  (void)registry.gone(9, true);
  EXPECT(never(facts_of(registry, "energy"), "it lacks").code == ErrorCode::closed);
}

TEST(the_first_put_decides) {
  Registry registry;
  REQUIRE(registry.declare(1, put_of("energy")).ok());
  PutRequest other = put_of("energy");
  other.type = "f4";
  other.element_bytes = 4;
  EXPECT(!registry.declare(2, other).ok());
  other = put_of("energy");
  other.box = *Box::make({0, 0}, {1, 1});
  EXPECT(!registry.declare(2, other).ok());
  other = put_of("");
  EXPECT(!registry.declare(2, other).ok());
  other = put_of("x");
  other.element_bytes = 17;
  EXPECT(!registry.declare(2, other).ok());
  EXPECT_EQ(registry.all().size(), 1U);
}

TEST(a_definition_says_the_domain_and_who_will_come) {
  Registry registry;
  const PutRequest domain{"energy", 0, *Box::make({0}, {100}), "f8", 8};
  REQUIRE(registry.define(domain, 2).ok());
  REQUIRE(registry.define(domain, 2).ok());
  EXPECT(!registry.facts("energy").has_value());  // nobody has put to it
  EXPECT(!registry.define(domain, 3).ok());
  PutRequest other = domain;
  other.type = "i8";
  EXPECT(!registry.define(other, 2).ok());
  EXPECT(!registry.declare(1, {"energy", 1, *Box::make({98}, {101}), "f8", 8}).ok());
  EXPECT(!registry.declare(1, {"energy", 1, *Box::make({0}, {4}), "f4", 4}).ok());
  REQUIRE(registry.declare(1, put_of("energy")).ok());
  (void)registry.gone(1, true);
  EXPECT(!facts_of(registry, "energy").ended());  // the other one has not begun
  REQUIRE(registry.declare(2, put_of("energy")).ok());
  EXPECT(!facts_of(registry, "energy").ended());
  (void)registry.gone(2, true);
  EXPECT(facts_of(registry, "energy").ended());

  other = domain;
  other.box = *Box::make({10}, {200});
  EXPECT(!registry.define(other, 2).ok());  // it leaves something out
  other.box = *Box::make({0}, {200});
  REQUIRE(registry.define(other, 2).ok());
  EXPECT(check_within(other, facts_of(registry, "energy")).ok());
  other.box = *Box::make({0, 0}, {200, 1});
  EXPECT(!registry.define(other, 2).ok());
  EXPECT(!registry.define(domain, -1).ok());
  REQUIRE(registry.declare(3, put_of("later")).ok());
  PutRequest later = put_of("later");
  REQUIRE(registry.define(later, 1).ok());
  EXPECT(facts_of(registry, "later").domain.has_value());
  later.type = "i8";
  EXPECT(!registry.define(later, 1).ok());
}
