// What the metadata server of a variable records about its writers.
#include "staging/server/registry.hpp"

#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

constexpr ClientId one{0, 1};
constexpr ClientId seven{0, 7};

PutRequest put_of(const std::string& variable) {
  return {variable, 1, *Box::make({0}, {4}), "f8", 8};
}

VariableMetadata facts_of(const Registry& registry, const std::string& variable) {
  const auto metadata = registry.metadata(variable);
  REQUIRE(metadata.has_value());
  return *metadata;
}

}  // namespace

TEST(the_end_of_a_producer_is_told_from_its_death) {
  Registry registry;
  EXPECT(!registry.metadata("energy").has_value());
  for (const ClientId& client : {one, seven, seven}) {
    REQUIRE(registry.declare(client, put_of("energy")).ok());
  }
  EXPECT_EQ(facts_of(registry, "energy").producers, 2);
  EXPECT_EQ(registry.gone(one, true).count("energy"), 1U);
  EXPECT(registry.gone(one, true).empty());
  (void)registry.gone(seven, false);
  EXPECT_EQ(facts_of(registry, "energy").producers, 0);
  EXPECT(never_complete(facts_of(registry, "energy").ending(), "it lacks").code ==
         ErrorCode::peer_lost);
  // Another client continues, and ends in good order: the death is not forgotten.
  REQUIRE(registry.declare({9, 9}, put_of("energy")).ok());
  EXPECT(!facts_of(registry, "energy").ended());
  (void)registry.gone({9, 9}, true);
  EXPECT(never_complete(facts_of(registry, "energy").ending(), "it lacks").code ==
         ErrorCode::peer_lost);
}

TEST(a_client_counts_once_whatever_becomes_of_its_connections) {
  Registry registry;
  REQUIRE(registry.define({"energy", 0, *Box::make({0}, {100}), "f8", 8}, 2).ok());
  REQUIRE(registry.declare(one, put_of("energy")).ok());
  EXPECT_EQ(registry.lost(one).count("energy"), 1U);
  EXPECT(registry.lost(one).empty());
  EXPECT(facts_of(registry, "energy").lost_producer());
  registry.came_back(one);
  registry.came_back(one);
  REQUIRE(registry.declare(one, put_of("energy")).ok());
  VariableMetadata metadata = facts_of(registry, "energy");
  EXPECT(metadata.producers == 1 && metadata.came == 1 && !metadata.lost_producer());
  (void)registry.gone(one, true);
  EXPECT(!facts_of(registry, "energy").ended());  // the second writer has not come
  REQUIRE(registry.declare(seven, put_of("energy")).ok());
  (void)registry.lost(seven);
  EXPECT(facts_of(registry, "energy").ended() && facts_of(registry, "energy").lost_producer());
  // only the connection was lost, and the client has ended in good order since
  (void)registry.gone(seven, true);
  metadata = facts_of(registry, "energy");
  EXPECT(metadata.ended() && !metadata.lost_producer());
}

TEST(the_first_put_decides) {
  Registry registry;
  REQUIRE(registry.declare(ClientId{0, 1}, put_of("energy")).ok());
  PutRequest other = put_of("energy");
  other.type = "f4";
  other.element_bytes = 4;
  EXPECT(!registry.declare(ClientId{0, 2}, other).ok());
  other = put_of("energy");
  other.box = *Box::make({0, 0}, {1, 1});
  EXPECT(!registry.declare(ClientId{0, 2}, other).ok());
  other = put_of("");
  EXPECT(!registry.declare(ClientId{0, 2}, other).ok());
  other = put_of("x");
  other.element_bytes = element_bytes_most + 1;
  EXPECT(!registry.declare(ClientId{0, 2}, other).ok());
  EXPECT_EQ(registry.all().size(), 1U);
}

TEST(a_definition_says_the_domain_and_who_will_come) {
  Registry registry;
  const PutRequest domain{"energy", 0, *Box::make({0}, {100}), "f8", 8};
  REQUIRE(registry.define(domain, 2).ok());
  REQUIRE(registry.define(domain, 2).ok());
  EXPECT(!registry.metadata("energy").has_value());  // no client has put to the variable
  EXPECT(!registry.define(domain, 3).ok());
  PutRequest other = domain;
  other.type = "i8";
  EXPECT(!registry.define(other, 2).ok());
  EXPECT(!registry.declare(ClientId{0, 1}, {"energy", 1, *Box::make({98}, {101}), "f8", 8}).ok());
  EXPECT(!registry.declare(ClientId{0, 1}, {"energy", 1, *Box::make({0}, {4}), "f4", 4}).ok());
  REQUIRE(registry.declare(ClientId{0, 1}, put_of("energy")).ok());
  (void)registry.gone(ClientId{0, 1}, true);
  EXPECT(!facts_of(registry, "energy").ended());  // the second writer has not begun
  REQUIRE(registry.declare(ClientId{0, 2}, put_of("energy")).ok());
  EXPECT(!facts_of(registry, "energy").ended());
  (void)registry.gone(ClientId{0, 2}, true);
  EXPECT(facts_of(registry, "energy").ended());

  other = domain;
  other.box = *Box::make({10}, {200});
  EXPECT(!registry.define(other, 2).ok());  // the domain lacks a part of the previous one
  other.box = *Box::make({0}, {200});
  REQUIRE(registry.define(other, 2).ok());
  EXPECT(check_within(other, facts_of(registry, "energy")).ok());
  other.box = *Box::make({0, 0}, {200, 1});
  EXPECT(!registry.define(other, 2).ok());
  EXPECT(!registry.define(domain, -1).ok());
  REQUIRE(registry.declare(ClientId{0, 3}, put_of("later")).ok());
  PutRequest later = put_of("later");
  REQUIRE(registry.define(later, 1).ok());
  EXPECT(facts_of(registry, "later").domain.has_value());
  later.type = "i8";
  EXPECT(!registry.define(later, 1).ok());
}

TEST(a_version_waits_for_those_who_put_to_the_variable) {
  Registry registry;
  const auto waits = [&](std::int64_t version, bool finished = false) {
    return registry.awaited("energy", version, finished);
  };
  EXPECT(waits(1).complete());  // there is no such variable
  REQUIRE(registry.declare(one, put_of("energy")).ok());
  EXPECT(waits(1).writers == 1 && waits(0).complete());  // it begins with version 1
  REQUIRE(registry.take_part(one, "energy", {1, 1, false}).ok());
  EXPECT(waits(1).complete() && waits(1, true).writers == 1);
  REQUIRE(registry.take_part(one, "energy", {1, 3, true}).ok());
  EXPECT(waits(1, true).complete() && waits(3, true).complete() && waits(4).writers == 1);
  // The other one begins with 2, and passes 3 by.
  REQUIRE(registry.take_part(seven, "energy", {2, 2, true}).ok());
  REQUIRE(registry.take_part(seven, "energy", {4, 4, true}).ok());
  EXPECT(waits(1).complete() && waits(3).writers == 1 && waits(4).writers == 1);
  (void)registry.lost(seven);
  EXPECT(waits(3).writers == 1 && !waits(3).never);  // it may come back
  (void)registry.gone(seven, true);
  EXPECT(waits(3).never && waits(3).writers == 0 && waits(2).complete());
  EXPECT(!waits(5).never && waits(5).writers == 1);  // 5 was not there when it ended
  (void)registry.gone(one, false);
  EXPECT(waits(5).never && waits(100).never && waits(2).complete());
  EXPECT(waits(3).never);  // it may have had more for its last version
  (void)registry.remove("energy");
  EXPECT(waits(3).complete());
}

TEST(a_version_says_how_many_of_the_awaited_have_put_no_box) {
  Registry registry;
  REQUIRE(registry.declare(one, put_of("energy")).ok());
  REQUIRE(registry.take_part(seven, "energy", {0, 0, true}).ok());
  EXPECT(registry.awaited("energy", 1, false).fresh == 2);
  REQUIRE(registry.take_part(one, "energy", {1, 1, true, true}).ok());
  EXPECT(registry.awaited("energy", 1, false).fresh == 1);  // the other one has said a word
  REQUIRE(registry.take_part(seven, "energy", {1, 1, true, true}).ok());
  REQUIRE(registry.take_part(seven, "energy", {2, 2, true}).ok());
  EXPECT(registry.awaited("energy", 1, false).fresh == 0);
  EXPECT(registry.awaited("energy", 3, false).writers == 2);
  EXPECT(registry.awaited("energy", 3, false).fresh == 0);
}

TEST(who_has_nothing_counts_before_the_variable_exists) {
  Registry registry;
  REQUIRE(registry.take_part(seven, "energy", {1, 1, true}).ok());
  REQUIRE(registry.take_part({9, 9}, "energy", {1, 0, true}).ok());  // in no version
  EXPECT(!registry.metadata("energy").has_value());
  (void)registry.lost({9, 9});
  REQUIRE(registry.declare(one, put_of("energy")).ok());
  VariableMetadata metadata = facts_of(registry, "energy");
  EXPECT(metadata.came == 3 && metadata.producers == 2 && metadata.missing == 1);
  REQUIRE(registry.take_part(one, "energy", {1, 1, true}).ok());
  EXPECT(registry.awaited("energy", 1, true).complete());
  for (const ClientId& client : {one, seven, ClientId{9, 9}}) (void)registry.gone(client, true);
  EXPECT(facts_of(registry, "energy").ended());
  // A name of which nothing comes is forgotten with those who said it.
  REQUIRE(registry.take_part(one, "other", {1, 1, true}).ok());
  (void)registry.gone(one, true);
  EXPECT(registry.awaited("other", 1, true).complete());
  EXPECT(!registry.take_part(one, "a\nb", {1, 1, true}).ok());
}
