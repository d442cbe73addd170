// Steps on the first server: when one is whole or broken, who is told, and what is forgotten.
#include "staging/server/step_table.hpp"

#include <algorithm>
#include <string>

#include "staging/model/boxes.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;
using tranship::test::box_of;

namespace {

const ClientId anna{1, 1};
const ClientId bert{2, 2};
const ClientId cora{3, 3};
const StepContents empty{};

StepContents contents_of(const std::string& variable, const std::string& key = "dt",
                         const std::string& value = "1") {
  return {{{variable, "f8", 8, box_of({0}, {4}), 1}}, {{"", key, value}}};
}

StepId begun(StepTable& steps, const ClientId& client, std::int64_t number, int writers = 1) {
  const auto id = steps.begin(client, number, writers);
  REQUIRE(id.ok());
  return (*id)->id;
}

StepId whole(StepTable& steps, std::int64_t number, const StepContents& contents = empty) {
  const StepId id = begun(steps, anna, number);
  REQUIRE(steps.end(anna, id, contents).ok());
  return id;
}

StepId broken(StepTable& steps, std::int64_t number) {
  const StepId id = begun(steps, anna, number);
  steps.give_up(anna, id, "an exception");
  return id;
}

std::string why_not_begun(StepTable& steps, const ClientId& client, std::int64_t number,
                          int writers = 1) {
  const auto id = steps.begin(client, number, writers);
  REQUIRE(!id.ok());
  return id.error().text();
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

StepTable::Found next(const StepTable& steps, std::int64_t after) {
  const auto found = steps.find({VersionChoice::next, after});
  REQUIRE(found.ok());
  return *found;
}

std::vector<StepId> ids_of(const std::vector<UnsettledStep>& steps) {
  std::vector<StepId> ids;
  for (const UnsettledStep& step : steps) ids.push_back(step.id);
  return ids;
}

using Ids = std::vector<StepId>;

}  // namespace

TEST(a_step_is_whole_when_all_its_writers_have_ended_it) {
  StepTable steps({}, 0);
  const StepId id = begun(steps, anna, 5, 2);
  REQUIRE(steps.end(anna, id, contents_of("a")).ok());
  EXPECT(steps.state(id) == StepState::open);  // bert has not come yet
  EXPECT_EQ(begun(steps, bert, 5, 2), id);
  EXPECT(steps.state(id) == StepState::open);
  EXPECT(steps.take_ended().empty());
  const auto record = steps.end(bert, id, contents_of("a"));
  REQUIRE(record.ok());
  EXPECT((*record)->state == StepState::whole && steps.state(id) == StepState::whole);
  EXPECT_EQ((*record)->variables.at("a").boxes, 2);
  const auto ended = steps.take_ended();
  REQUIRE(ended.size() == 1);
  EXPECT(ended[0].id == id && ended[0].state == StepState::whole);
  EXPECT(steps.take_ended().empty());
  // Whole steps stay whole, whatever their writers do then.
  steps.give_up(anna, id, "late");
  EXPECT(steps.lost(anna, "anna"));
  EXPECT(steps.state(id) == StepState::whole && steps.take_ended().empty());
}

TEST(an_end_that_is_repeated_gets_the_same_answer) {
  StepTable steps({}, 0);
  const StepId id = begun(steps, anna, 1, 2);
  REQUIRE(steps.end(anna, id, contents_of("a")).ok());
  const auto again = steps.end(anna, id, contents_of("b"));
  REQUIRE(again.ok());
  EXPECT((*again)->state == StepState::open && !(*again)->variables.contains("b"));
  EXPECT_EQ(begun(steps, bert, 1, 2), id);
  steps.give_up(bert, id, "an exception");
  const auto broke = steps.end(anna, id, empty);
  REQUIRE(broke.ok());
  EXPECT((*broke)->state == StepState::broken && says((*broke)->why, "an exception"));
  EXPECT(!steps.end(cora, id, empty).ok() && !steps.end(anna, 99, empty).ok());
}

TEST(steps_rise_for_each_client_and_for_all) {
  StepTable steps({}, 0);
  const StepId third = begun(steps, anna, 3, 2);
  EXPECT(says(why_not_begun(steps, bert, 2), "step 3 was begun before step 2"));
  const StepId fifth = begun(steps, bert, 5);
  EXPECT_EQ(begun(steps, cora, 3, 2), third);  // one that is open may be joined
  EXPECT(says(why_not_begun(steps, bert, 3, 2), "this client has begun step 5"));
  EXPECT(says(why_not_begun(steps, anna, 3, 2), "has begun step 3 before"));
  EXPECT(says(why_not_begun(steps, bert, 3, 2), "steps rise"));
  EXPECT(says(why_not_begun(steps, cora, 5, 2), "1 writers, not 2"));
  EXPECT(says(why_not_begun(steps, cora, 5), "by its 1 writers"));
  EXPECT(says(why_not_begun(steps, cora, 6, 0), "at least one writer"));
  REQUIRE(steps.end(bert, fifth, empty).ok());
  EXPECT(says(why_not_begun(steps, cora, 5), "is whole"));
}

TEST(a_broken_step_is_begun_again_only_while_it_is_the_highest) {
  StepTable steps({}, 0);
  const StepId first = broken(steps, 1);
  EXPECT(steps.may_begin_again());
  const StepId again = begun(steps, bert, 1);
  EXPECT(again != first && !steps.may_begin_again());
  EXPECT(steps.state(first) == StepState::broken && steps.state(again) == StepState::open);
  REQUIRE(steps.end(bert, again, empty).ok());
  EXPECT(next(steps, 0).record->id == again && next(steps, 0).broken.empty());
  broken(steps, 2);
  begun(steps, bert, 3);
  EXPECT(!steps.may_begin_again());
  EXPECT(says(why_not_begun(steps, cora, 2), "step 3 was begun before"));
}

TEST(a_writer_breaks_a_step_only_within_its_part) {
  StepTable steps({}, 0);
  const StepId id = begun(steps, anna, 1, 2);
  steps.give_up(bert, id, "a stranger");
  EXPECT(!steps.lost(bert, "bert") && steps.state(id) == StepState::open);
  REQUIRE(steps.end(anna, id, empty).ok());
  steps.give_up(anna, id, "late");
  EXPECT(steps.lost(anna, "anna") && steps.state(id) == StepState::open);
  EXPECT_EQ(begun(steps, bert, 1, 2), id);
  EXPECT(steps.lost(bert, "bert"));
  EXPECT(steps.state(id) == StepState::broken);
  EXPECT(says(steps.find(id)->why, "\"bert\" of step 1 was lost"));
  EXPECT(steps.lost(bert, "bert"));  // once is enough
  const auto ended = steps.take_ended();
  EXPECT(ended.size() == 1 && ended[0].id == id && ended[0].state == StepState::broken);
  EXPECT((*steps.end(bert, id, empty))->state == StepState::broken);
}

TEST(a_client_that_is_lost_breaks_all_steps_within_which_it_is) {
  StepTable steps({}, 0);
  const StepId first = begun(steps, anna, 1);
  const StepId second = begun(steps, anna, 2);
  const StepId third = begun(steps, bert, 3);
  EXPECT(steps.lost(anna, "anna"));
  EXPECT(steps.state(first) == StepState::broken && steps.state(second) == StepState::broken);
  EXPECT(steps.state(third) == StepState::open);
  steps.came_back(anna);
  const StepId fourth = begun(steps, anna, 4);
  EXPECT(steps.lost(anna, "anna"));
  EXPECT(steps.state(fourth) == StepState::broken);
}

TEST(a_reason_is_truncated) {
  StepTable steps({}, 0);
  const StepId id = begun(steps, anna, 1);
  steps.give_up(anna, id, std::string(2000, 'x'));
  EXPECT(steps.find(id)->why.size() < StepTable::why_bytes + 50);
}

TEST(a_step_that_its_writers_have_left_is_broken) {
  StepTable steps({}, 0);
  const StepId left = begun(steps, anna, 1, 2);
  REQUIRE(steps.end(anna, left, empty).ok());
  const StepId others = begun(steps, cora, 2, 3);  // of another group of writers
  const StepId strange = begun(steps, cora, 3, 2);
  steps.give_up(cora, strange, "an exception");
  begun(steps, anna, 4, 2);
  EXPECT(steps.state(left) == StepState::open);  // bert may still come
  begun(steps, bert, 4, 2);
  EXPECT(steps.state(left) == StepState::broken);
  EXPECT(says(steps.find(left)->why, "begun by 1 of 2 writers, which have gone on to step 4"));
  EXPECT(steps.state(others) == StepState::open);
}

TEST(a_step_that_all_have_begun_or_others_write_is_not_left) {
  StepTable steps({}, 0);
  const StepId lower = begun(steps, anna, 1, 2);
  EXPECT_EQ(begun(steps, bert, 1, 2), lower);
  const StepId foreign = begun(steps, cora, 2, 2);
  begun(steps, anna, 3, 2);
  begun(steps, bert, 3, 2);
  EXPECT(steps.state(lower) == StepState::open && steps.state(foreign) == StepState::open);
  REQUIRE(steps.end(anna, lower, empty).ok() && steps.end(bert, lower, empty).ok());
  EXPECT(steps.state(lower) == StepState::whole);
}

TEST(what_a_step_has_is_added_whole_or_not_at_all) {
  StepTable steps({}, 0);
  const StepId id = begun(steps, anna, 1, 2);
  begun(steps, bert, 1, 2);
  REQUIRE(steps.add(anna, id, contents_of("a")).ok());
  StepContents wrong = contents_of("b", "new");
  wrong.variables.push_back({"a", "f4", 4, box_of({0}, {4}), 1});
  EXPECT(says(steps.add(bert, id, wrong).error().text(), "f8"));
  wrong = contents_of("b", "new");
  wrong.attributes.push_back({"", "dt", "2"});
  EXPECT(says(steps.add(bert, id, wrong).error().text(), "another value by another writer"));
  wrong.attributes = {{"a", "new", "1"}, {"a", "new", "2"}};
  EXPECT(says(steps.add(bert, id, wrong).error().text(), "\"new\" of \"a\""));
  wrong.attributes = {{"", "new", ""}};
  EXPECT(says(steps.add(bert, id, wrong).error().text(), "has no value"));
  wrong.attributes = {};
  wrong.variables.push_back({"b", "f8", 8, box_of({0, 0}, {4, 4}), 1});
  EXPECT(!steps.add(bert, id, wrong).ok());
  const StepRecord& record = *steps.find(id);
  EXPECT(record.variables.size() == 1 && record.attributes.size() == 1);
  // The same is no conflict, and boxes add up.
  StepContents same = contents_of("a");
  same.variables.push_back({"a", "f8", 8, box_of({6}, {9}), 2});
  same.variables.push_back({"a", "f8", 8, {}, 0});
  REQUIRE(steps.add(bert, id, same).ok());
  EXPECT_EQ(record.variables.at("a").boxes, 4);
  EXPECT(record.variables.at("a").bounds == box_of({0}, {9}));
  EXPECT(!steps.add(cora, id, contents_of("a")).ok());
  REQUIRE(steps.end(bert, id, empty).ok());
  EXPECT(!steps.add(bert, id, contents_of("a")).ok());  // its part has ended
  EXPECT(!steps.add(anna, id + 1, contents_of("a")).ok());
  steps.give_up(anna, id, "an exception");
  EXPECT(says(steps.add(anna, id, contents_of("a")).error().text(), "an exception"));
}

TEST(the_texts_of_a_step_have_a_limit_which_repetition_does_not_reach) {
  Limits limits;
  limits.attribute_bytes = 1000;
  StepTable steps(limits, 0);
  const StepId id = begun(steps, anna, 1);
  for (int k = 0; k < 100; ++k) {
    REQUIRE(steps.add(anna, id, contents_of("a", "k", std::string(300, 'x'))).ok());
  }
  const Status full = steps.add(anna, id, {{}, {{"", "l", std::string(700, 'x')}}});
  EXPECT(!full && full.error().code == ErrorCode::out_of_memory);
  EXPECT(says(full.error().text(), "staging_attribute_bytes"));
  EXPECT(steps.add(anna, id, {{}, {{"", "l", std::string(100, 'x')}}}).ok());
  StepContents names;
  for (int k = 0; k < 10; ++k) {
    names.variables.push_back({"v" + std::to_string(k), "f8", 8, {}, 0});
  }
  EXPECT(!steps.end(anna, id, names).ok());
  EXPECT(steps.state(id) == StepState::open);  // its writer gives it up, or ends it with less
}

TEST(readers_find_whole_steps_and_wait_for_open_ones) {
  StepTable steps({}, 0);
  EXPECT(says(next(steps, INT64_MIN).why, "no step has begun yet"));
  const StepId second = begun(steps, anna, 2, 2);
  const StepId third = begun(steps, bert, 3);
  REQUIRE(steps.end(bert, third, empty).ok());
  // `next` waits for a lower one, `latest` and `exact` do not.
  EXPECT(next(steps, 1).record == nullptr);
  EXPECT(says(next(steps, 1).why, "step 2 has been ended by 0 of 2 writers"));
  EXPECT(next(steps, 2).record->id == third);
  EXPECT(steps.find({VersionChoice::latest, INT64_MAX})->record->id == third);
  EXPECT(steps.find({VersionChoice::latest, 2})->record == nullptr);
  EXPECT(steps.find({VersionChoice::exact, 3})->record->id == third);
  EXPECT(steps.find({VersionChoice::exact, 2})->record == nullptr);
  EXPECT(says(steps.find({VersionChoice::exact, 7})->why, "has not begun yet"));
  const auto never = steps.find({VersionChoice::exact, 1});
  EXPECT(!never.ok() && never.error().code == ErrorCode::not_found);
  steps.give_up(anna, second, "an exception");
  EXPECT(next(steps, 1).record->id == third);
  REQUIRE(next(steps, 1).broken.size() == 1);
  EXPECT_EQ(next(steps, 1).broken[0].number, 2);
  EXPECT(steps.find({VersionChoice::exact, 2})->broken.size() == 1);
  EXPECT(says(next(steps, 3).why, "no step after 3"));
}

TEST(a_broken_step_is_passed_by_when_it_cannot_be_begun_again) {
  StepTable steps({}, 0);
  broken(steps, 1);
  EXPECT(next(steps, 0).broken.empty() && next(steps, 0).record == nullptr);
  EXPECT(says(next(steps, 0).why, "it may be begun again"));
  EXPECT_EQ(steps.find({VersionChoice::exact, 1})->broken.size(), 1U);
  const StepId second = begun(steps, anna, 2);
  EXPECT_EQ(next(steps, 0).broken.size(), 1U);
  steps.give_up(anna, second, "an exception");
  EXPECT_EQ(next(steps, 0).broken.size(), 1U);
  EXPECT(steps.gone(anna, true));  // nobody is left to begin it again
  EXPECT_EQ(next(steps, 0).broken.size(), 2U);
}

TEST(steps_end_with_their_writers) {
  StepTable steps({}, 0);
  EXPECT(steps.ending() == Ending::none);
  whole(steps, 1);
  const StepId id = begun(steps, bert, 2);
  REQUIRE(steps.end(bert, id, empty).ok());
  EXPECT(steps.lost(anna, "anna") && steps.ending() == Ending::none);
  EXPECT(steps.lost(bert, "bert") && steps.ending() == Ending::died);
  steps.came_back(bert);
  EXPECT(steps.ending() == Ending::none);
  EXPECT(steps.gone(bert, true) && !steps.gone(bert, true));
  EXPECT(steps.ending() == Ending::died);  // anna is lost, and may be dead
  EXPECT(steps.gone(anna, true) && steps.ending() == Ending::closed);
  begun(steps, cora, 3);
  EXPECT(steps.ending() == Ending::none);
  EXPECT(steps.gone(cora, false) && steps.ending() == Ending::died);
  EXPECT(!steps.gone({9, 9}, false));
}

TEST(the_state_of_a_step_is_freed_once_it_is_forgotten_and_open_before_it_begins) {
  StepTable steps({}, 0);
  EXPECT(steps.state(1) == StepState::open);
  const StepId id = whole(steps, 1);
  steps.settled(7, id, StepState::whole, true);
  EXPECT(steps.state(id) == StepState::whole && steps.state(id + 1) == StepState::open);
  EXPECT(steps.free(id) && !steps.free(id));
  EXPECT(steps.state(id) == StepState::freed && !steps.find({VersionChoice::exact, 1}).ok());
  steps.settled(7, id, StepState::whole, true);  // what was said before it was freed
  EXPECT(steps.find(id) != nullptr && !steps.find(id)->settled);
  steps.settled(7, id, StepState::freed, true);
  EXPECT(steps.state(id) == StepState::freed && steps.find(id) == nullptr);
  EXPECT_EQ(steps.size(), 0U);
  EXPECT(says(why_not_begun(steps, anna, 1), "steps rise"));
}

TEST(one_client_at_a_time_settles_a_step) {
  StepTable steps({}, 0);
  const StepId first = whole(steps, 1);
  const StepId second = broken(steps, 2);
  begun(steps, anna, 3);
  EXPECT(steps.take_unsettled(7, first) && !steps.take_unsettled(8, first));
  const auto taken = steps.take_unsettled(8);
  REQUIRE(taken.size() == 1);
  EXPECT(taken[0].id == second && taken[0].state == StepState::broken);
  EXPECT(steps.take_unsettled(9).empty() && !steps.take_unsettled(9, second));
  steps.drop_settler(7);
  EXPECT(ids_of(steps.take_unsettled(9)) == Ids{first});
  steps.settled(9, first, StepState::whole, true);
  EXPECT(steps.find(first)->settled);
  steps.drop_settler(9);
  EXPECT(steps.take_unsettled(10).empty());
  steps.settled(8, first, StepState::whole, false);  // a late report changes nothing
  EXPECT(steps.find(first)->settled && steps.take_unsettled(10).empty());
}

TEST(a_step_that_a_client_could_not_settle_is_for_others) {
  StepTable steps({}, 0);
  const StepId id = whole(steps, 1);
  EXPECT(steps.take_unsettled(7, id));
  steps.settled(7, id, StepState::whole, false);
  EXPECT(!steps.find(id)->settled);
  EXPECT(steps.take_unsettled(7).empty() && !steps.take_unsettled(7, id));
  EXPECT(ids_of(steps.take_unsettled(8)) == Ids{id});
  steps.settled(8, id, StepState::whole, false);
  EXPECT(steps.take_unsettled(8).empty());
  steps.settle_again();  // the server that they had lost is dead
  EXPECT(ids_of(steps.take_unsettled(7)) == Ids{id});
  steps.settled(7, id, StepState::whole, true);
  EXPECT(steps.find(id)->settled && steps.take_unsettled(8).empty());
}

TEST(so_many_steps_are_handed_out_at_once) {
  StepTable steps({}, 0);
  for (int k = 0; k < 20; ++k) whole(steps, k);
  EXPECT_EQ(steps.take_unsettled(7).size(), StepTable::settled_at_once);
  EXPECT_EQ(steps.take_unsettled(7).size(), 20 - StepTable::settled_at_once);
}

TEST(a_step_that_is_freed_is_settled_anew) {
  for (const bool by_limit : {false, true}) {
    StepTable steps({}, 0);
    const StepId id = whole(steps, 1, contents_of("a"));
    EXPECT(steps.take_unsettled(7, id));
    if (by_limit) {
      steps.discarded("a", 1);
    } else {
      EXPECT(steps.free(id));
    }
    EXPECT(steps.find({VersionChoice::latest, 1})->record == nullptr);
    const auto taken = steps.take_unsettled(8);
    REQUIRE(taken.size() == 1);
    EXPECT(taken[0].id == id && taken[0].state == StepState::freed);
    const auto ended = steps.take_ended();
    REQUIRE(ended.size() == 2);
    EXPECT(ended[0].state == StepState::whole && ended[1].state == StepState::freed);
  }
}

TEST(a_limit_frees_a_step_and_a_client_takes_variables_out_of_it) {
  StepTable steps({}, 0);
  const StepId first = whole(steps, 1, contents_of("a"));
  const StepId second = whole(steps, 2, contents_of("b"));
  const StepId third = whole(steps, 3, contents_of("a"));
  steps.discarded("b", 1);
  steps.discarded("a", 9);
  EXPECT_EQ(steps.whole().size(), 3U);
  steps.discarded("a", 1);
  EXPECT(steps.state(first) == StepState::freed);
  const StepId open = begun(steps, anna, 4);
  REQUIRE(steps.add(anna, open, contents_of("a")).ok());
  steps.remove("b", 3);
  EXPECT_EQ(steps.find(second)->variables.size(), 1U);
  steps.remove("b", 2);
  EXPECT_EQ(steps.find(second)->variables.size(), 0U);
  steps.remove("a");
  EXPECT(steps.find(third)->variables.empty() && steps.find(third)->state == StepState::whole);
  REQUIRE(steps.end(anna, open, contents_of("b")).ok());
  EXPECT(steps.find(open)->variables.size() == 1 && steps.find(open)->variables.contains("b"));
}

TEST(so_many_whole_steps_are_kept_as_versions) {
  StepTable steps({}, 2);
  const StepId early = begun(steps, bert, 0);
  const StepId first = whole(steps, 1);
  whole(steps, 2);
  whole(steps, 3);
  EXPECT(steps.state(first) == StepState::freed);
  const auto record = steps.end(bert, early, empty);  // it is below those that are kept
  REQUIRE(record.ok());
  EXPECT((*record)->state == StepState::freed);
  EXPECT(next(steps, -1).record->number == 2);
}

TEST(so_many_broken_steps_are_remembered) {
  StepTable steps({}, 0);
  const auto many = static_cast<std::int64_t>(StepTable::broken_max);
  const StepId oldest = broken(steps, 0);
  const StepId second = broken(steps, 1);
  for (std::int64_t k = 2; k < many; ++k) broken(steps, k);
  EXPECT_EQ(steps.size(), StepTable::broken_max);
  steps.settled(7, second, StepState::broken, true);
  broken(steps, many);  // one that all servers know goes first
  EXPECT(steps.find(second) == nullptr && steps.find(oldest) != nullptr);
  EXPECT_EQ(steps.size(), StepTable::broken_max);
  broken(steps, many + 1);
  EXPECT(steps.find(oldest) == nullptr && steps.state(oldest) == StepState::freed);
  EXPECT_EQ(steps.size(), StepTable::broken_max);
  const StepId kept = whole(steps, many + 2);
  for (std::int64_t k = 0; k <= many; ++k) EXPECT(steps.free(whole(steps, many + 3 + k)));
  EXPECT_EQ(steps.size(), 2 * StepTable::broken_max + 1);
  EXPECT(steps.find(kept) != nullptr);
}

TEST(steps_have_limits) {
  Limits limits;
  limits.steps = 4;
  StepTable steps(limits, 0);
  whole(steps, 1);
  const StepId unsettled = broken(steps, 2);
  const StepId settled = broken(steps, 3);
  whole(steps, 4);
  steps.settled(7, settled, StepState::broken, true);
  begun(steps, anna, 5);  // in the place of a broken one
  EXPECT(steps.find(settled) == nullptr && steps.find(unsettled) != nullptr);
  EXPECT(says(why_not_begun(steps, anna, 6), "staging_steps"));
}

TEST(so_many_steps_may_be_open) {
  StepTable steps({}, 0);
  const auto many = static_cast<std::int64_t>(StepTable::open_max);
  for (std::int64_t k = 0; k < many; ++k) begun(steps, anna, k);
  EXPECT(says(why_not_begun(steps, anna, many), "the steps that are open are 1024"));
  REQUIRE(steps.end(anna, 1, empty).ok());
  begun(steps, anna, many);
}
