// A client that writes and reads steps, with one server and with wrong replies.
#include "staging/client/step_client.hpp"

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "staging/client/one_server.hpp"
#include "staging/client/scripted_servers.hpp"
#include "staging/model/boxes.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;
using tranship::test::box_of;

namespace {

constexpr std::int64_t end_ns = 1'000'000'000;

struct Client {
  explicit Client(int count = 1) : servers(count) {}
  ScriptedServers servers;
  RequestSender requester{servers};
  StepClient steps{requester};
};

bool is_no_server(const auto& result) {
  return !result && result.error().code == ErrorCode::unsupported;
}

protocol::StepFound found_step(std::int64_t number) {
  protocol::StepFound found;
  found.id = 6;
  found.number = number;
  found.settled = true;
  return found;
}

auto find_with(const StepQuery& query, std::deque<std::vector<std::byte>> answers) {
  Client client;
  client.servers.answers = std::move(answers);
  return client.steps.find(query, end_ns);
}

}  // namespace

TEST(a_step_of_any_size_is_written_and_read) {
  OneServer server;
  RequestSender requester(server);
  StepClient steps(requester);
  const auto id = steps.begin(3, 1, end_ns);
  REQUIRE(id.ok());
  for (int k = 0; k < 40; ++k) {
    const std::string name = "v" + std::to_string(100 + k);
    steps.add(*id, StepVariable{name, "f8", 8, box_of({0}, {4}), 1});
    steps.add(*id, StepVariable{name, "f8", 8, box_of({4}, {8}), 1});
    REQUIRE(steps.add(*id, Attribute{name, "k", std::string(800, 'x')}).ok());
    REQUIRE(
        steps.add(*id, Attribute{name, "k", std::string(800, 'y')}).ok());  // the last one counts
    REQUIRE(steps.add(*id, Attribute{name, "gone", "1"}).ok());
    REQUIRE(steps.add(*id, Attribute{name, "gone", ""}).ok());
  }
  const int before = server.asked;
  REQUIRE(steps.end(*id, end_ns).ok());
  EXPECT(server.asked - before > 10);
  const auto found = steps.find({VersionChoice::next, 2}, end_ns);
  REQUIRE(found.ok());
  EXPECT(found->id == *id && found->number == 3);
  const auto& [variables, attributes] = found->contents;
  REQUIRE(variables.size() == 40 && attributes.size() == 40);
  for (std::size_t k = 0; k < 40; ++k) {
    EXPECT(variables[k].boxes == 2 && variables[k].bounds == box_of({0}, {8}));
    EXPECT(attributes[k].value == std::string(800, 'y'));
  }
  EXPECT(!steps.end(*id, end_ns).ok());  // it has ended
  REQUIRE(steps.free(3, end_ns).ok());
  const auto gone = steps.find({VersionChoice::exact, 3}, end_ns);
  EXPECT(!gone && gone.error().code == ErrorCode::not_found);
  EXPECT(!steps.free(3, end_ns).ok());
}

TEST(attributes_of_any_number_are_set_and_read) {
  OneServer server;
  RequestSender requester(server);
  StepClient steps(requester);
  std::vector<Attribute> all;
  for (int k = 0; k < 40; ++k)
    all.push_back({"", "k" + std::to_string(100 + k), std::string(900, 'x')});
  all.push_back({"", "k100", "1"});
  REQUIRE(steps.set(all).ok());
  const auto read = steps.attributes_of("");
  REQUIRE(read.ok() && read->size() == 40);
  EXPECT(read->front().key == "k100" && read->front().value == "1");
  EXPECT(read->back().key == "k139" && read->back().value.size() == 900);
  EXPECT(steps.attributes_of("v")->empty());
}

TEST(an_attribute_that_fits_no_message_is_refused) {
  OneServer server;
  RequestSender requester(server);
  StepClient steps(requester);
  const auto id = steps.begin(1, 1, end_ns);
  REQUIRE(id.ok());
  const Attribute large{"", "k", std::string(room_bytes, 'x')};
  for (const Status& refused : {steps.add(*id, large), steps.set({{"", "a", "1"}, large})}) {
    REQUIRE(!refused.ok());
    EXPECT(refused.error().code == ErrorCode::invalid_argument);
    EXPECT(refused.error().text().find("slot_bytes") != std::string::npos);
  }
  EXPECT(!steps.add(*id, Attribute{"", "", "1"}).ok());
  EXPECT(steps.attributes_of("")->empty());  // none was set
  REQUIRE(steps.end(*id, end_ns).ok());
  EXPECT(steps.find({VersionChoice::exact, 1}, end_ns)->contents.attributes.empty());
}

TEST(a_step_whose_end_fails_is_given_up) {
  OneServer server;
  RequestSender requester(server);
  StepClient steps(requester);
  const auto id = steps.begin(1, 1, end_ns);
  REQUIRE(id.ok());
  steps.add(*id, StepVariable{"v", "f8", 8, box_of({0}, {4}), 1});
  StepContents other{{{"v", "f4", 4, {}, 0}}, {}};
  ReplyBuffer reply;
  REQUIRE(requester.ask(0, protocol::AddToStep{*id, other}, reply).ok());
  const Status ended = steps.end(*id, end_ns);
  EXPECT(!ended && ended.error().code == ErrorCode::invalid_argument);
  const auto state = requester.ask(0, protocol::QueryStep{*id}, reply);
  EXPECT(state.ok() && state->state == StepState::broken);
}

TEST(a_step_is_given_up_whatever_the_reason) {
  for (const std::string& reason : {std::string(), std::string(1 << 20, 'x'),
                                    std::string(1 << 20, '\n'), std::string("an exception")}) {
    OneServer server;
    RequestSender requester(server);
    StepClient steps(requester);
    const auto id = steps.begin(1, 1, end_ns);
    REQUIRE(id.ok());
    steps.give_up(*id, reason);
    ReplyBuffer reply;
    const auto state = requester.ask(0, protocol::QueryStep{*id}, reply);
    EXPECT(state.ok() && state->state == StepState::broken);
    EXPECT(!steps.end(*id, end_ns).ok());
  }
}

TEST(a_client_that_gets_no_reply_gives_back_what_it_was_to_settle) {
  for (const ErrorCode failure : {ErrorCode::timeout, ErrorCode::cancelled}) {
    Client client(3);
    client.servers.failure = failure;
    EXPECT(!client.steps.begin(1, 1, end_ns).ok());
    EXPECT(client.servers.settled().id == 0 && !client.servers.settled().done);
    EXPECT(!client.steps.find({VersionChoice::next, 0}, end_ns).ok());
    EXPECT(!client.steps.settle(5, end_ns).ok());
    client.steps.give_up(5, "an exception");
    EXPECT_EQ(client.servers.told.size(), 5U);  // with the step that may have begun
    EXPECT(client.servers.settled().id == 0);
  }
  Client client(3);
  client.servers.failure = ErrorCode::peer_lost;
  EXPECT(!client.steps.begin(1, 1, end_ns).ok());
  EXPECT(client.servers.told.empty());
}

TEST(all_other_servers_are_told_and_those_that_are_lost_are_named) {
  Client client(3);
  const protocol::DoneWithOrphans done;
  client.servers.answers = replies_of(protocol::StepStateFound{StepState::whole}, done, done);
  EXPECT(*client.steps.settle(5, end_ns));
  EXPECT_EQ(client.servers.count_of(RequestKind::settle_step), 2);
  EXPECT(client.servers.settled().id == 5 && client.servers.settled().done);
  EXPECT(client.servers.settled().lost.empty());
  client.servers.failure = ErrorCode::peer_lost;
  client.servers.answers = replies_of(protocol::StepStateFound{StepState::broken}, done);
  EXPECT(*client.steps.settle(6, end_ns));
  EXPECT(client.servers.settled().done);
  EXPECT_EQ(client.servers.settled().lost.size(), 1U);
  client.servers.failure = ErrorCode::timeout;
  client.servers.answers = replies_of(protocol::StepStateFound{StepState::broken}, done);
  EXPECT(*client.steps.settle(7, end_ns));
  EXPECT(client.servers.settled().id == 7 && !client.servers.settled().done);
}

TEST(a_step_that_not_all_servers_know_to_be_whole_is_settled_when_it_is_found) {
  for (const bool known : {true, false}) {
    Client client(3);
    protocol::StepFound found = found_step(3);
    found.settled = known;
    const protocol::DoneWithOrphans done;
    client.servers.answers = replies_of(found, done, done);
    REQUIRE(client.steps.find({VersionChoice::exact, 3}, end_ns).ok());
    EXPECT_EQ(client.servers.count_of(RequestKind::settle_step), known ? 0 : 2);
  }
}

TEST(an_open_step_is_not_settled_and_others_are) {
  Client client(2);
  client.servers.answers = replies_of(protocol::StepStateFound{StepState::open});
  EXPECT(!*client.steps.settle(5, end_ns));
  EXPECT(client.servers.told.empty());
  protocol::StepStateFound open{StepState::open};
  open.unsettled = {{4, StepState::whole}};
  client.servers.answers = replies_of(open, protocol::DoneWithOrphans{});
  EXPECT(*client.steps.settle(5, end_ns));
  EXPECT_EQ(client.servers.settled().id, 4U);
}

TEST(steps_that_do_not_fit_the_question_are_refused) {
  const auto refused = [](VersionChoice choice, std::int64_t number, std::int64_t found) {
    return is_no_server(find_with({choice, number}, replies_of(found_step(found))));
  };
  EXPECT(refused(VersionChoice::exact, 3, 4) && !refused(VersionChoice::exact, 3, 3));
  EXPECT(refused(VersionChoice::next, 3, 3) && !refused(VersionChoice::next, 3, 4));
  EXPECT(refused(VersionChoice::latest, 3, 4) && !refused(VersionChoice::latest, 3, 3));
}

TEST(broken_steps_that_do_not_go_on_are_refused) {
  protocol::StepFound found;
  found.broken = {{5, "given up"}, {4, "given up"}};
  EXPECT(is_no_server(find_with({VersionChoice::next, 3}, replies_of(found))));
  found.broken = {{3, "given up"}};
  EXPECT(is_no_server(find_with({VersionChoice::next, 3}, replies_of(found))));
  const auto exact = find_with({VersionChoice::exact, 3}, replies_of(found));
  EXPECT(!exact && exact.error().code == ErrorCode::not_found);
  EXPECT(exact.error().text().find("given up") != std::string::npos);
}

TEST(broken_steps_without_end_do_not_keep_a_reader) {
  // A server that names one more broken step each time.
  class Endless final : public Servers {
   public:
    int asked = 0;
    int count() const override { return 1; }
    std::int64_t message_bytes() const override { return room_bytes; }
    Result<std::span<const std::byte>> ask(int, const fabric::MessageWriter&,
                                           ReplyBuffer& reply) override {
      if (++asked > 2'000'000) return Error{ErrorCode::peer_lost, "the server is gone"};
      if (!reply.bytes) reply.bytes = std::make_unique<std::byte[]>(room_bytes);
      protocol::StepFound found;
      found.broken = {{asked, "given up"}};
      const std::span room(reply.bytes.get(), room_bytes);
      const auto length = write_reply(room, found);
      return std::span<const std::byte>(room.first(*length));
    }
    void tell(int, const fabric::MessageWriter&) override {}
    std::uint64_t notices() const override { return 0; }
    void wait(std::uint64_t, std::int64_t) override {}
    std::int64_t now_ns() const override { return 1000 * std::int64_t{asked}; }
  } servers;
  RequestSender requester(servers);
  StepClient steps(requester);
  const auto found = steps.find({VersionChoice::next, 0}, 10'000'000);
  EXPECT(!found && found.error().code == ErrorCode::timeout);
  EXPECT(servers.asked > 1000 && servers.asked < 100'000);
  // Who wants to know of them gets them at once.
  std::vector<BrokenStep> broken;
  const auto passed = steps.find({VersionChoice::next, 0}, 10'000'000, &broken);
  REQUIRE(passed.ok());
  EXPECT(passed->id == 0 && broken.size() == 1 && passed->number == broken[0].number);
}

TEST(pages_of_a_step_that_do_not_go_on_are_refused) {
  protocol::StepFound found = found_step(3);
  found.page.variables_left = 2;
  protocol::StepPage page;
  page.variables_left = 2;
  EXPECT(is_no_server(find_with({VersionChoice::exact, 3}, replies_of(found, page))));
  page.variables.push_back({"v", "f8", 8, {}, 0});
  page.variables_left = 1;
  protocol::StepPage last = page;
  last.variables_left = 0;
  const auto whole = find_with({VersionChoice::exact, 3}, replies_of(found, page, last));
  EXPECT(whole.ok() && whole->contents.variables.size() == 2);
}

TEST(a_step_that_cannot_come_is_not_waited_for) {
  protocol::StepFound none;
  none.why = "no step has begun yet";
  none.ending = Ending::closed;
  const auto closed = find_with({VersionChoice::next, 3}, replies_of(none));
  EXPECT(!closed && closed.error().code == ErrorCode::closed);
  none.ending = Ending::died;
  const auto died = find_with({VersionChoice::next, 3}, replies_of(none));
  EXPECT(!died && died.error().code == ErrorCode::peer_lost);
  none.ending = Ending::none;
  Client client;
  client.servers.repeats = true;
  client.servers.answers = replies_of(none);
  const auto late = client.steps.find({VersionChoice::next, 3}, end_ns);
  EXPECT(!late && late.error().code == ErrorCode::timeout);
  EXPECT(late.error().text().find(none.why) != std::string::npos);
}

TEST(attributes_that_do_not_go_on_are_refused) {
  const auto read = [](std::deque<std::vector<std::byte>> answers) {
    Client client;
    client.servers.answers = std::move(answers);
    return client.steps.attributes_of("v");
  };
  const auto page = [](const std::string& variable, const std::string& key, bool more) {
    return reply_of(protocol::AttributesFound{{{variable, key, "1"}}, more});
  };
  EXPECT(read({page("v", "a", true), page("v", "b", false)})->size() == 2);
  EXPECT(is_no_server(read({page("v", "a", true), page("v", "a", false)})));
  EXPECT(is_no_server(read({page("v", "b", true), page("v", "a", false)})));
  EXPECT(is_no_server(read({page("w", "a", false)})));
  EXPECT(is_no_server(read({reply_of(protocol::AttributesFound{{}, true})})));
}
