// Errors of plan(): each has a hint.
#include <string>
#include <vector>

#include "plan/graph.hpp"
#include "plan/plan.hpp"
#include "support/test.hpp"

using namespace tranship;

namespace {

/// Returns a row of memories, with channels from each to the next.
Profile row_of(int memories, std::int64_t budget) {
  Profile profile;
  for (int k = 0; k < memories; ++k) {
    profile.memories.push_back({"node0/host" + std::to_string(k), MemoryKind::host, budget});
    if (k == 0) continue;
    ChannelSpec channel;
    channel.name = "c" + std::to_string(k);
    channel.source = k - 1;
    channel.target = k;
    channel.throughput = Throughput({{65536, 64, 1e9}});
    profile.channels.push_back(channel);
  }
  return profile;
}

std::shared_ptr<const Mapping> array_of(const std::vector<Field>& fields) {
  return Mapping::make({{"x", 100}}, fields, Layout::parse("F, x").value()).value();
}

PlanQuery query_of(int source, int target) {
  PlanQuery query;
  query.source = View::whole(array_of({{"f", "f8", 8}}));
  query.target = query.source;
  query.source_memory = source;
  query.target_memory = target;
  return query;
}

/// Checks that every planner's error has this code, and that its text has all of these words.
void expect_error(const PlanQuery& asked, const Profile& profile, ErrorCode code,
                  const std::vector<std::string>& words) {
  for (const auto kind : {PlannerKind::automatic, PlannerKind::full, PlannerKind::simple,
                          PlannerKind::spsl, PlannerKind::spdl}) {
    PlanQuery query = asked;
    query.planner = kind;
    const auto made = plan(query, profile);
    if (made) return test::record_failure(to_string(kind), 0, explain(*made, profile));
    EXPECT(made.error().code == code);
    for (const std::string& word : words) {
      if (made.error().text().find(word) != std::string::npos) continue;
      test::record_failure(to_string(kind), 0,
                           "\"" + made.error().text() + "\" lacks \"" + word + "\"");
    }
  }
}

}  // namespace

TEST(without_a_chain_of_channels_both_ends_are_named) {
  const Profile profile = row_of(3, 1 << 20);
  expect_error(query_of(2, 0), profile, ErrorCode::no_route,
               {"no chain of channels", "node0/host2", "node0/host0", "tranship topology"});
  expect_error(query_of(1, 1), profile, ErrorCode::no_route, {"node0/host1"});
}

TEST(a_budget_or_threshold_below_one_point_says_what_to_raise) {
  Profile profile = row_of(3, 1 << 20);
  PlanQuery query = query_of(0, 2);
  query.buffer_bytes_max = 15;  // two slots of one point are 16 bytes
  expect_error(query, profile, ErrorCode::out_of_memory,
               {"node0/host0", "node0/host2", "two tiles", "8 B", "memory"});
  query.buffer_bytes_max = 16;
  EXPECT(plan(query, profile).ok());
  query.buffer_bytes_max = 0;
  profile.memories[1].threshold_bytes = 7;
  expect_error(query, profile, ErrorCode::out_of_memory, {"threshold_bytes", "machine profile"});
  profile.memories[1].threshold_bytes = 8;
  EXPECT(plan(query, profile).ok());
  EXPECT_EQ(plan(query, profile).value().tile_bytes, 8);
}

TEST(a_memory_without_a_budget_is_not_passed) {
  Profile profile = row_of(3, 1 << 20);
  profile.memories[1].buffer_bytes_max = 0;
  PlanQuery query = query_of(0, 2);
  for (const auto kind : {PlannerKind::full, PlannerKind::simple, PlannerKind::spsl}) {
    query.planner = kind;
    const auto made = plan(query, profile);
    REQUIRE(!made.ok());
    EXPECT(made.error().text().find("node0/host2") != std::string::npos);
  }
  // The memories of the ends need no budget.
  profile.memories[1].buffer_bytes_max = 1 << 20;
  profile.memories[0].buffer_bytes_max = 0;
  profile.memories[2].buffer_bytes_max = 0;
  EXPECT(plan(query, profile).ok());
}

TEST(memories_that_the_profile_does_not_have_are_refused) {
  const Profile profile = row_of(3, 1 << 20);
  for (const int unknown : {-1, 3, 1000}) {
    expect_error(query_of(unknown, 1), profile, ErrorCode::invalid_argument,
                 {"not in the machine profile", "tranship topology"});
    expect_error(query_of(1, unknown), profile, ErrorCode::invalid_argument,
                 {"not in the machine profile"});
    PlanQuery query = query_of(0, 2);
    query.through = {0, unknown, 2};
    expect_error(query, profile, ErrorCode::invalid_argument, {"not in the machine profile"});
  }
}

TEST(memories_to_pass_through_must_join_the_ends) {
  const Profile profile = row_of(4, 1 << 20);
  for (const std::vector<int>& through :
       {std::vector<int>{0}, {1, 2}, {0, 1}, {1, 3}, {3, 2, 1, 0}}) {
    PlanQuery query = query_of(0, 3);
    query.through = through;
    expect_error(query, profile, ErrorCode::invalid_argument,
                 {"begin with the source's", "end with the target's"});
  }
  PlanQuery query = query_of(0, 3);
  query.through = {0, 2, 3};
  query.planner = PlannerKind::full;
  const auto made = plan(query, profile);
  REQUIRE(!made.ok());
  EXPECT(made.error().code == ErrorCode::no_route);
  EXPECT(made.error().text().find("through the memories") != std::string::npos);
  query.through = {0, 1, 2, 3};
  EXPECT_EQ(plan(query, profile).value().hops.size(), 3u);
}

TEST(fields_that_do_not_match_are_refused) {
  const Profile profile = row_of(2, 1 << 20);
  PlanQuery query = query_of(0, 1);
  query.source = View::whole(array_of({{"a", "f8", 8}, {"b", "f8", 8}}));
  query.target = View::whole(array_of({{"a", "f8", 8}, {"c", "f8", 8}}));
  expect_error(query, profile, ErrorCode::invalid_argument, {"\"c\""});
  query.target = View::whole(array_of({{"a", "f8", 8}}));
  expect_error(query, profile, ErrorCode::invalid_argument, {"field"});
}

TEST(a_path_has_at_most_ten_hops) {
  const Profile profile = row_of(hops_max + 2, 1 << 20);
  for (const auto kind : {PlannerKind::full, PlannerKind::simple, PlannerKind::spdl}) {
    PlanQuery query = query_of(0, hops_max);
    query.planner = kind;
    EXPECT_EQ(plan(query, profile).value().hops.size(), static_cast<std::size_t>(hops_max));
  }
  expect_error(query_of(0, hops_max + 1), profile, ErrorCode::no_route, {"node0/host11"});
}

TEST(an_empty_region_is_planned) {
  const Profile profile = row_of(3, 1 << 20);
  for (const auto kind : {PlannerKind::automatic, PlannerKind::full, PlannerKind::spdl}) {
    PlanQuery query = query_of(0, 2);
    query.planner = kind;
    query.source.extents = {0};
    query.target.extents = {0};
    const auto made = plan(query, profile);
    REQUIRE(made.ok());
    EXPECT_EQ(made->tiles, 0);
    EXPECT_EQ(made->bytes, 0);
    EXPECT(made->seconds >= 0);
  }
}
