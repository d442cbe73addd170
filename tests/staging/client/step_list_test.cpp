// The list of steps, with one server, beside changes of others, and with wrong replies.
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "staging/client/one_server.hpp"
#include "staging/client/scripted_servers.hpp"
#include "staging/client/step_client.hpp"
#include "staging/model/boxes.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;
using tranship::test::box_of;

namespace {

constexpr std::int64_t end_ns = 1'000'000'000;

std::string name_of(StepState state) {
  return state == StepState::open ? "open" : state == StepState::whole ? "whole" : "broken";
}

struct Group {
  OneServer server;
  RequestSender requester{server};
  StepClient steps{requester};

  StepId begin(std::int64_t number, int writers = 1) {
    const auto id = steps.begin(number, writers, end_ns);
    REQUIRE(id.ok());
    return *id;
  }
  void write(std::int64_t number, const std::vector<std::string>& variables) {
    const StepId id = begin(number);
    for (const std::string& name : variables) {
      steps.add(id, StepVariable{name, "f8", 8, box_of({0}, {4}), 1});
      REQUIRE(steps.add(id, Attribute{name, "unit", "\"J\""}).ok());
    }
    REQUIRE(steps.add(id, Attribute{"", "time", "0.5"}).ok());
    REQUIRE(steps.end(id, end_ns).ok());
  }
  /// Returns a text for each step that is listed.
  std::vector<std::string> list() {
    const auto listed = steps.list(end_ns);
    REQUIRE(listed.ok());
    std::vector<std::string> texts;
    for (const ListedStep& one : *listed) {
      std::string text = std::to_string(one.number) + " " + name_of(one.state);
      for (const std::string& name : one.variables) text += " " + name;
      text += " " + std::to_string(one.attributes);
      texts.push_back(text + (one.why.empty() ? "" : ": " + one.why));
    }
    return texts;
  }
};

using Texts = std::vector<std::string>;

bool is_no_server(const auto& result) {
  return !result && result.error().code == ErrorCode::unsupported;
}

/// A reply to a look for a step: `id` 0: there is none yet.
protocol::StepFound found(StepId id, std::int64_t number, const std::string& why = "") {
  protocol::StepFound reply;
  reply.id = id;
  reply.number = number;
  reply.settled = true;
  reply.why = why;
  return reply;
}

auto list_with(std::deque<std::vector<std::byte>> answers) {
  ScriptedServers servers;
  servers.answers = std::move(answers);
  RequestSender requester(servers);
  return StepClient(requester).list(end_ns);
}

}  // namespace

TEST(steps_are_listed_with_their_states) {
  Group group;
  EXPECT(group.list() == Texts{});
  group.write(-2, {});
  group.steps.give_up(group.begin(1), "ValueError: no");
  group.write(3, {"energy", "count"});
  const StepId open = group.begin(4, 2);
  const StepId second = group.begin(5);
  group.write(7, {"energy"});
  const std::string lacks = "step 4 has been ended by 0 of 2 writers";
  const std::string also = "step 5 has been ended by 0 of 1 writers";
  const std::string broken = "1 broken 0: step 1 was given up: ValueError: no";
  EXPECT(group.list() == (Texts{"-2 whole 1", broken, "3 whole count energy 3",
                                "4 open 0: " + lacks, "5 open 0: " + also, "7 whole energy 2"}));
  // A step that was freed is not listed, nor is what was given up as open.
  REQUIRE(group.steps.free(3, end_ns).ok());
  group.steps.give_up(open, "late");
  REQUIRE(group.steps.end(second, end_ns).ok());
  EXPECT(group.list() == (Texts{"-2 whole 1", broken, "4 broken 0: step 4 was given up: late",
                                "5 whole 0", "7 whole energy 2"}));
}

TEST(the_highest_step_is_listed_as_broken_though_it_may_be_begun_again) {
  Group group;
  group.write(1, {});
  group.steps.give_up(group.begin(2), "no");
  const std::string broken = "2 broken 0: step 2 was given up: no";
  EXPECT(group.list() == (Texts{"1 whole 1", broken}));
  const StepId again = group.begin(2);
  EXPECT(group.list() == (Texts{"1 whole 1", "2 open 0: step 2 has been ended by 0 of 1 writers"}));
  REQUIRE(group.steps.end(again, end_ns).ok());
  EXPECT(group.list() == (Texts{"1 whole 1", "2 whole 0"}));
}

TEST(steps_that_need_several_messages_are_listed) {
  Group group;
  for (int number = 0; number < 20; ++number) group.steps.give_up(group.begin(number), "no");
  Texts names;
  for (int k = 0; k < 40; ++k) names.push_back(std::string(300, 'v') + std::to_string(100 + k));
  group.write(20, names);
  const auto listed = group.steps.list(end_ns);
  REQUIRE(listed.ok() && listed->size() == 21);
  for (std::size_t k = 0; k < 20; ++k) {
    EXPECT((*listed)[k].number == static_cast<int>(k));
    EXPECT((*listed)[k].state == StepState::broken);
  }
  EXPECT(listed->back().variables == names);
  EXPECT_EQ(listed->back().attributes, 41);
}

TEST(a_list_is_complete_beside_changes) {
  // Whatever happens between two requests, steps that nobody touches are listed.
  for (const bool ends : {false, true}) {
    Group group;
    group.write(1, {"a"});
    const StepId open = group.begin(2);
    const StepId other = group.begin(3);
    int looks = 0;
    group.server.before = [&](RequestKind kind) {
      if (kind != RequestKind::find_step || ++looks != 3) return;  // the second one about step 2
      if (ends) {
        REQUIRE(group.steps.end(open, end_ns).ok());
      } else {
        group.steps.give_up(open, "no");
      }
    };
    const std::string second = ends ? "2 whole 0" : "2 broken 0: step 2 was given up: no";
    const std::string third = "3 open 0: step 3 has been ended by 0 of 1 writers";
    EXPECT(group.list() == (Texts{"1 whole a 2", second, third}));
    EXPECT_EQ(looks, 6);
    group.server.before = nullptr;
    group.steps.give_up(other, "");
  }
}

TEST(a_step_that_is_freed_meanwhile_is_left_out) {
  // Between the two requests about an open step.
  Group group;
  const StepId open = group.begin(2);
  const StepId other = group.begin(3);
  int looks = 0;
  group.server.before = [&](RequestKind kind) {
    if (kind != RequestKind::find_step || ++looks != 2) return;
    REQUIRE(group.steps.end(open, end_ns).ok());
    REQUIRE(group.steps.free(2, end_ns).ok());
  };
  EXPECT(group.list() == (Texts{"3 open 0: step 3 has been ended by 0 of 1 writers"}));
  group.steps.give_up(other, "");
  // Between two pages of a whole one.
  Group many;
  Texts names;
  for (int k = 0; k < 40; ++k) names.push_back(std::string(300, 'v') + std::to_string(100 + k));
  many.write(2, names);
  many.write(3, {});
  bool is_freed = false;
  many.server.before = [&](RequestKind kind) {
    if (kind != RequestKind::more_of_step || std::exchange(is_freed, true)) return;
    REQUIRE(many.steps.free(2, end_ns).ok());
  };
  EXPECT(many.list() == (Texts{"3 whole 1"}));
  EXPECT(is_freed);
}

TEST(a_list_settles_the_steps_that_it_meets) {
  ScriptedServers servers(2);
  auto whole = found(6, 3);
  whole.settled = false;
  auto last = found(0, 3);
  last.unsettled = {{5, StepState::broken}};
  const auto settled = reply_of(protocol::DoneWithOrphans{});
  servers.answers = {reply_of(whole), settled, reply_of(last), settled};
  RequestSender requester(servers);
  StepClient steps(requester);
  const auto listed = steps.list(end_ns);
  REQUIRE(listed.ok() && listed->size() == 1);
  EXPECT_EQ(servers.count_of(RequestKind::settle_step), 2);
  EXPECT(servers.settled().id == 5 && servers.settled().done);
}

TEST(a_list_ends_at_its_time) {
  // The clock of this server stands still: a server that replies quickly cannot hold a list up.
  Group group;
  for (int number = 0; number < 1100; ++number) group.write(number, {});
  const auto listed = group.steps.list(0);
  EXPECT(!listed && listed.error().code == ErrorCode::timeout);
  EXPECT(group.steps.list(end_ns).ok());
}

TEST(wrong_replies_do_not_become_lists) {
  // Steps that do not rise.
  EXPECT(is_no_server(list_with(replies_of(found(6, 3), found(7, 3)))));
  EXPECT(is_no_server(list_with(replies_of(found(6, 3), found(7, 2)))));
  auto broken = found(0, 5);
  broken.broken = {{5, "no"}};
  EXPECT(is_no_server(list_with(replies_of(broken, broken))));
  // What is said of another step than the one that was asked for.
  EXPECT(is_no_server(list_with(replies_of(found(0, 3, "open"), found(0, 4, "open")))));
  EXPECT(is_no_server(list_with(replies_of(found(0, 3, "open"), found(6, 4)))));
  auto elsewhere = found(0, 3);
  elsewhere.broken = {{2, "no"}};
  EXPECT(is_no_server(list_with(replies_of(found(0, 3, "open"), elsewhere))));
  // An error of the server ends the list.
  const auto late = list_with(replies_of(found(6, 3)));
  EXPECT(!late && late.error().code == ErrorCode::timeout);
}
