// Requests about steps and attributes, as servers of a group answer them.
#include <map>
#include <string>
#include <vector>

#include "staging/server/asking.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

constexpr ClientConnection anna = 1;
constexpr ClientConnection bert = 2;
constexpr ClientConnection cora = 3;
constexpr ClientConnection others = 100;  ///< other servers, from this connection on
constexpr std::size_t message_bytes = 4096;

/// One server of a group, whose other servers have joined.
struct StepServer : Asked<StepServer> {
  explicit StepServer(int servers_of_group = 1, int rank = 0, int versions_max = 0)
      : servers(servers_of_group), service(options(rank, versions_max)) {
    for (int other = 1; rank == 0 && other < servers; ++other) {
      const protocol::Join join{staging_version, other, servers, "there"};
      REQUIRE(ask(others + static_cast<ClientConnection>(other), join).ok());
    }
    for (const ClientConnection client : {anna, bert, cora}) {
      REQUIRE(ask(client, protocol::Hello{staging_version, "client", {client, 1}}).ok());
    }
  }

  int servers;
  std::vector<std::vector<std::byte>> segments;
  std::map<ClientConnection, int> notices;
  Service service;
  std::vector<std::byte> reply = std::vector<std::byte>(message_bytes);

  Service::Options options(int rank, int versions_max) {
    Service::Options made;
    made.store.memory_bytes = 1 << 20;
    made.store.segment_bytes = 1 << 16;
    made.store.versions_max = versions_max;
    made.store.server = rank;
    made.store.servers = servers;
    made.store.make_segment = [this](std::int64_t bytes) {
      segments.emplace_back(static_cast<std::size_t>(bytes));
      return Status{};
    };
    made.servers = servers;
    made.contact = "here";
    made.message_bytes = static_cast<std::int64_t>(message_bytes);
    made.address_of = [this](const Range& range) {
      return segments[static_cast<std::size_t>(range.segment)].data() + range.offset;
    };
    made.notify = [this](ClientConnection client) { ++notices[client]; };
    made.move = [](const Move&) {};
    return made;
  }

  StepId begin(ClientConnection from, std::int64_t number, int writers = 1) {
    return std::get<protocol::StepBegun>(well(from, protocol::BeginStep{number, writers})).id;
  }
  StepId write(ClientConnection from, std::int64_t number, const StepContents& contents = {}) {
    const StepId id = begin(from, number);
    EXPECT(well(from, protocol::EndStep{id, contents}).state == StepState::whole);
    return id;
  }
  protocol::StepFound next(ClientConnection from, std::int64_t after = INT64_MIN,
                           bool watch = false) {
    return well(from, protocol::FindStep{{VersionChoice::next, after}, watch});
  }
  bool put(ClientConnection from, const PutRequest& object) {
    const auto zeros = [](std::span<std::byte> room) {
      std::fill(room.begin(), room.end(), std::byte{0});
      return Status{};
    };
    return ask(from, protocol::Put{object, {{}, 32, zeros}, {}}).ok();
  }
  bool is_seen(std::int64_t version) {
    const GetRequest get{"v", VersionChoice::exact, version, *Box::make({0}, {4}), {}};
    return std::holds_alternative<protocol::InlineData>(well(cora, protocol::Get{get, 0}));
  }
};

PutRequest within(std::int64_t version, StepId step) {
  PutRequest object{"v", version, *Box::make({0}, {4}), "f8", 8, {}};
  object.step = step;
  return object;
}

StepContents many_texts(int count, std::size_t bytes) {
  StepContents contents;
  for (int k = 0; k < count; ++k) {
    const std::string name = "v" + std::to_string(100 + k);
    contents.variables.push_back({name, "f8", 8, *Box::make({0}, {4}), 1});
    contents.attributes.push_back({name, "k", std::string(bytes, 'x')});
  }
  return contents;
}

}  // namespace

TEST(what_is_put_within_a_step_is_seen_from_the_reply_to_its_last_end_on) {
  StepServer server;
  const StepId id = server.begin(anna, 1, 2);
  EXPECT_EQ(server.begin(bert, 1, 2), id);
  REQUIRE(server.put(anna, within(1, id)));
  EXPECT(server.well(anna, protocol::EndStep{id, {}}).state == StepState::open);
  EXPECT(!server.is_seen(1));
  const auto ended = server.well(bert, protocol::EndStep{id, {}});
  EXPECT(ended.state == StepState::whole && !ended.settles);
  EXPECT(server.is_seen(1));
  EXPECT_EQ(server.service.withheld_steps(), 0U);
  EXPECT(server.next(cora).id == id && server.next(cora).settled);
  EXPECT(server.next(cora).unsettled.empty());
  // A writer that asks again, because the reply was lost, gets the same answer.
  EXPECT(server.well(bert, protocol::EndStep{id, {}}).state == StepState::whole);
}

TEST(a_step_that_is_given_up_or_whose_writer_is_lost_is_dropped) {
  StepServer server;
  const StepId first = server.begin(anna, 1);
  REQUIRE(server.put(anna, within(1, first)));
  const auto given_up = server.well(anna, protocol::GiveUpStep{first, "an exception"});
  EXPECT(given_up.state == StepState::broken && !given_up.settles);
  EXPECT(given_up.why.find("an exception") != std::string::npos);
  const StepId second = server.begin(bert, 2);
  REQUIRE(server.put(bert, within(2, second)));
  server.service.lost(bert);
  EXPECT(server.well(anna, protocol::QueryStep{second}).state == StepState::broken);
  EXPECT_EQ(server.service.withheld_steps(), 0U);
  EXPECT_EQ(server.service.memory_bytes_used(), 0);
  EXPECT(!server.put(anna, within(2, second)));
  EXPECT(server.well(anna, protocol::QueryStep{second + 1}).state == StepState::open);
}

TEST(a_client_is_lost_with_its_last_connection) {
  StepServer server;
  REQUIRE(server.ask(bert + 10, protocol::Hello{staging_version, "again", {bert, 1}}).ok());
  const StepId id = server.begin(bert, 1);
  server.service.lost(bert);
  EXPECT(server.well(anna, protocol::QueryStep{id}).state == StepState::open);
  server.service.gone(bert, false);
  EXPECT(server.well(bert + 10, protocol::EndStep{id, {}}).state == StepState::whole);
  const StepId next = server.begin(bert + 10, 2);
  server.service.gone(bert + 10, true);  // whoever closes within a step breaks it, too
  EXPECT(server.well(anna, protocol::QueryStep{next}).state == StepState::broken);
}

TEST(only_the_first_server_answers_for_steps_and_attributes) {
  StepServer server(3, 1);
  const auto refuses = [&](const auto& request) {
    const auto said = server.ask(anna, request);
    return !said && said.error().text().find("not the first server") != std::string::npos;
  };
  EXPECT(refuses(protocol::BeginStep{1, 1}));
  EXPECT(refuses(protocol::AddToStep{1, {}}));
  EXPECT(refuses(protocol::EndStep{1, {}}));
  EXPECT(refuses(protocol::GiveUpStep{1, "why"}));
  EXPECT(refuses(protocol::StepSettled{1, StepState::whole, true, {}}));
  EXPECT(refuses(protocol::QueryStep{1}));
  EXPECT(refuses(protocol::FindStep{}));
  EXPECT(refuses(protocol::MoreOfStep{1, 0, 0}));
  EXPECT(refuses(protocol::FreeStep{1}));
  EXPECT(refuses(protocol::SetAttributes{}));
  EXPECT(refuses(protocol::GetAttributes{}));
}

TEST(other_servers_end_a_step_when_a_client_says_so) {
  for (const bool whole : {true, false}) {
    StepServer server(3, 1);
    REQUIRE(server.put(anna, within(1, 5)));
    EXPECT_EQ(server.service.withheld_steps(), 1U);
    (void)server.well(bert, protocol::SettleStep{5, whole ? StepState::whole : StepState::broken});
    EXPECT_EQ(server.service.withheld_steps(), 0U);
    EXPECT_EQ(server.is_seen(1), whole);
    (void)server.well(bert, protocol::SettleStep{5, whole ? StepState::broken : StepState::whole});
    EXPECT_EQ(server.is_seen(1), whole);
    EXPECT(!server.put(anna, within(1, 5)));
  }
}

TEST(no_client_ends_a_step_on_the_first_server) {
  StepServer server(3);
  const StepId id = server.begin(anna, 1);
  REQUIRE(server.put(anna, within(1, id)));
  (void)server.well(bert, protocol::SettleStep{id, StepState::whole});
  EXPECT(!server.is_seen(1) && server.service.withheld_steps() == 1);
}

TEST(a_step_is_settled_by_the_client_that_ends_it_or_another_if_that_is_lost) {
  StepServer server(3);
  const StepId id = server.begin(anna, 1);
  EXPECT(server.well(anna, protocol::EndStep{id, {}}).settles);
  EXPECT(server.next(bert).unsettled.empty() && !server.next(bert).settled);
  server.service.lost(anna);
  const auto found = server.next(bert);
  REQUIRE(found.unsettled.size() == 1);
  EXPECT(found.unsettled[0].id == id && found.unsettled[0].state == StepState::whole);
  EXPECT(server.next(cora).unsettled.empty());
  EXPECT(server.well(cora, protocol::QueryStep{id}).settles == false);
  (void)server.well(bert, protocol::StepSettled{id, StepState::whole, true, {}});
  EXPECT(server.next(cora).settled && server.next(cora).unsettled.empty());
}

TEST(each_reply_about_steps_may_name_some_to_settle) {
  StepServer server(3);
  const auto leave_one = [&](std::int64_t number) {
    const StepId id = server.begin(anna, number);
    (void)server.well(anna, protocol::GiveUpStep{id, "an exception"});
    (void)server.well(anna, protocol::StepSettled{});  // the reply was lost
    return id;
  };
  const StepId first = leave_one(1);
  const auto begun = std::get<protocol::StepBegun>(server.well(bert, protocol::BeginStep{2, 2}));
  REQUIRE(begun.unsettled.size() == 1);
  EXPECT(begun.unsettled[0].id == first && begun.unsettled[0].state == StepState::broken);
  // A reader that meets an open step is told of others that have ended.
  const StepId third = leave_one(3);
  const auto open = server.well(cora, protocol::QueryStep{begun.id});
  EXPECT(open.state == StepState::open && !open.settles);
  REQUIRE(open.unsettled.size() == 1);
  EXPECT_EQ(open.unsettled[0].id, third);
  const StepId fourth = leave_one(4);
  EXPECT(server.well(cora, protocol::QueryStep{fourth}).settles);
}

TEST(a_server_that_one_client_has_lost_counts_when_it_is_dead) {
  StepServer server(3);
  const StepId id = server.write(anna, 1);
  (void)server.well(anna, protocol::StepSettled{id, StepState::whole, true, {2}});
  EXPECT(!server.next(anna).settled && server.next(anna).unsettled.empty());
  EXPECT_EQ(server.next(bert).unsettled.size(), 1U);
  (void)server.well(bert, protocol::StepSettled{id, StepState::whole, true, {2}});
  server.service.lost(others + 2);  // silence is not death
  EXPECT(server.next(anna).unsettled.empty());
  server.service.gone(others + 2, false);
  EXPECT_EQ(server.next(anna).unsettled.size(), 1U);
  (void)server.well(anna, protocol::StepSettled{id, StepState::whole, false, {2}});
  EXPECT(!server.next(cora).settled);
  (void)server.well(cora, protocol::StepSettled{id, StepState::whole, true, {1, 2}});
  EXPECT(!server.next(bert).settled);
  (void)server.well(bert, protocol::StepSettled{id, StepState::whole, true, {2}});
  EXPECT(server.next(bert).settled);
}

TEST(readers_that_wait_for_steps_get_notices) {
  StepServer server;
  const auto notices_of = [&](const auto& change) {
    EXPECT(server.next(cora, INT64_MIN, true).id == 0);
    const int before = server.notices[cora];
    change();
    return server.notices[cora] - before;
  };
  StepId id = 0;
  EXPECT_EQ(notices_of([&] { id = server.begin(anna, 1); }), 0);
  EXPECT_EQ(notices_of([&] { (void)server.well(anna, protocol::GiveUpStep{id, "why"}); }), 1);
  // It could be begun again until now.
  EXPECT_EQ(notices_of([&] { id = server.begin(anna, 2); }), 1);
  EXPECT_EQ(notices_of([&] { server.service.lost(anna); }), 1);
  EXPECT_EQ(notices_of([&] { server.service.gone(anna, true); }), 1);
  EXPECT_EQ(notices_of([&] { id = server.begin(bert, 3); }), 1);
  EXPECT_EQ(notices_of([&] { (void)server.well(bert, protocol::EndStep{id, {}}); }), 1);
  // Without `watch`, none comes.
  EXPECT(server.next(cora, 3).id == 0);
  const int before = server.notices[cora];
  server.write(bert, 4);
  EXPECT_EQ(server.notices[cora], before);
}

TEST(what_a_step_has_comes_in_pages) {
  StepServer server;
  const StepContents contents = many_texts(30, 700);
  const StepId id = server.begin(anna, 1);
  for (int k = 0; k < 30; ++k) {
    const auto at = static_cast<std::size_t>(k);
    const StepContents one{{contents.variables[at]}, {contents.attributes[at]}};
    (void)server.well(anna, protocol::AddToStep{id, one});
  }
  (void)server.well(anna, protocol::EndStep{id, {}});
  protocol::StepPage page = server.next(bert).page;
  StepContents read;
  int pages = 0;
  while (true) {
    ++pages;
    read.variables.insert(read.variables.end(), page.variables.begin(), page.variables.end());
    read.attributes.insert(read.attributes.end(), page.attributes.begin(), page.attributes.end());
    EXPECT_EQ(page.variables_left, 30 - read.variables.size());
    EXPECT_EQ(page.attributes_left, 30 - read.attributes.size());
    if (page.variables_left + page.attributes_left == 0) break;
    REQUIRE(!page.variables.empty() || !page.attributes.empty());
    page = server.well(bert,
                       protocol::MoreOfStep{id, static_cast<std::uint32_t>(read.variables.size()),
                                            static_cast<std::uint32_t>(read.attributes.size())});
  }
  EXPECT(pages > 5);
  for (std::size_t k = 0; k < 30; ++k) {
    EXPECT(read.variables[k].name == contents.variables[k].name);
    EXPECT(read.attributes[k].value == contents.attributes[k].value);
  }
  // Numbers beyond the end are no fault.
  page = server.well(bert, protocol::MoreOfStep{id, 1000, ~0U});
  EXPECT(page.variables.empty() && page.attributes.empty());
  EXPECT(page.variables_left == 0 && page.attributes_left == 0);
  (void)server.well(bert, protocol::FreeStep{id});
  EXPECT(!server.ask(bert, protocol::MoreOfStep{id, 0, 0}).ok());
  EXPECT(!server.ask(bert, protocol::FreeStep{id}).ok());
}

TEST(many_broken_steps_with_long_reasons_fit_into_replies) {
  StepServer server(3);
  for (int k = 0; k < 20; ++k) {
    const StepId id = server.begin(anna, k);
    (void)server.well(anna, protocol::GiveUpStep{id, std::string(2000, 'x')});
  }
  server.write(anna, 20, many_texts(1, 1000));
  server.service.lost(anna);
  std::int64_t after = INT64_MIN;
  std::vector<std::int64_t> numbers;
  protocol::StepFound found;
  while (found.id == 0) {
    found = server.next(bert, after);
    REQUIRE(found.id != 0 || !found.broken.empty());
    for (const BrokenStep& step : found.broken) numbers.push_back(step.number);
    if (!numbers.empty()) after = numbers.back();
  }
  EXPECT_EQ(numbers.size(), 20U);
  EXPECT(found.number == 20);
}

TEST(attributes_come_in_pages) {
  StepServer server;
  for (int k = 0; k < 20; ++k) {
    const std::string key = "k" + std::to_string(100 + k);
    (void)server.well(anna, protocol::SetAttributes{{{"v", key, std::string(900, 'x')}}});
  }
  int read = 0;
  int pages = 0;
  std::string after;
  for (bool more = true; more; ++pages) {
    const auto found = server.well(bert, protocol::GetAttributes{"v", after});
    for (const Attribute& one : found.attributes)
      EXPECT(one.key == "k" + std::to_string(100 + read++));
    REQUIRE(!found.attributes.empty());
    after = found.attributes.back().key;
    more = found.more;
    // What goes meanwhile, or comes before, leaves nothing out.
    (void)server.well(anna, protocol::SetAttributes{{{"v", "a" + after, "1"}, {"v", after, ""}}});
  }
  EXPECT(read == 20 && pages > 4);
  EXPECT(!server.well(bert, protocol::GetAttributes{"", ""}).more);
  const Attribute large{"", "k", std::string(message_bytes / 2 + 1, 'x')};
  const auto refused = server.ask(anna, protocol::SetAttributes{{large}});
  EXPECT(!refused && refused.error().code == ErrorCode::invalid_argument);
  (void)server.well(anna,
                    protocol::SetAttributes{{{"", "k", std::string(message_bytes / 2, 'x')}}});
  EXPECT_EQ(server.well(bert, protocol::GetAttributes{"", ""}).attributes.size(), 1U);
}

TEST(a_variable_that_is_deleted_is_missing_from_its_steps) {
  StepServer server;
  const StepContents contents{{{"v", "f8", 8, *Box::make({0}, {4}), 1}}, {}};
  const auto variables_of = [&](std::int64_t after) {
    const auto found = server.next(bert, after);
    EXPECT_EQ(found.number, after + 1);
    EXPECT(found.id != 0);
    return found.page.variables.size();
  };
  for (const std::int64_t number : {1, 2}) {
    const StepId id = server.begin(anna, number);
    REQUIRE(server.put(anna, within(number, id)));
    (void)server.well(anna, protocol::EndStep{id, contents});
  }
  (void)server.well(anna, protocol::SetAttributes{{{"v", "k", "1"}, {"", "k", "1"}}});
  (void)server.well(anna, protocol::Discard{"v", 1});
  EXPECT(variables_of(0) == 0 && variables_of(1) == 1);
  (void)server.well(anna, protocol::Remove{"v", 0});
  EXPECT(variables_of(0) == 0 && variables_of(1) == 0);
  EXPECT(server.well(bert, protocol::GetAttributes{"v", ""}).attributes.empty());
  EXPECT_EQ(server.well(bert, protocol::GetAttributes{"", ""}).attributes.size(), 1U);
  // Also if it lies elsewhere, or its step is open.
  const StepId open = server.begin(anna, 3);
  (void)server.well(bert, protocol::Remove{"w", 0});
  const StepContents others{{{"w", "f8", 8, *Box::make({0}, {4}), 1}, contents.variables[0]}, {}};
  (void)server.well(anna, protocol::EndStep{open, others});
  EXPECT_EQ(variables_of(2), 1U);
}

TEST(a_step_that_is_below_those_that_are_kept_is_freed_at_once) {
  StepServer server(1, 0, 1);
  const StepId early = server.begin(bert, 1);
  server.write(anna, 2);
  EXPECT(server.well(bert, protocol::EndStep{early, {}}).state == StepState::freed);
  EXPECT(server.next(cora).number == 2);
}

TEST(a_server_that_closes_lets_steps_end_and_none_begin) {
  StepServer server;
  const StepId id = server.begin(anna, 1);
  server.service.drain();
  const auto refused = server.ask(bert, protocol::BeginStep{2, 1});
  EXPECT(!refused && refused.error().code == ErrorCode::closed);
  EXPECT(server.well(anna, protocol::EndStep{id, {}}).state == StepState::whole);
}
