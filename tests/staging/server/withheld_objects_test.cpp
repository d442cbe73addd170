// What was put within a step is withheld by a server until the step has ended: then it is shown, or
// dropped.
#include <string>

#include "staging/stores.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

constexpr std::uint64_t the_step = 7;
constexpr ClientConnection other = 3;
const Box cell = *Box::make({0}, {1});

PutRequest within(std::int64_t version, std::int64_t lower, std::int64_t upper,
                  std::uint64_t id = the_step) {
  PutRequest request = put_of(version, lower, upper);
  request.step = id;
  return request;
}

GetRequest get_of(VersionChoice choice, std::int64_t version, std::int64_t lower,
                  std::int64_t upper) {
  return {"energy", choice, version, *Box::make({lower}, {upper}), {}};
}

std::uint64_t begin(ObjectStore& store, const PutRequest& request,
                    ClientConnection client = writer) {
  const auto room = store.begin(client, request);
  REQUIRE(room.ok() && std::holds_alternative<GrantedRoom>(*room));
  return std::get<GrantedRoom>(*room).object;
}

std::uint64_t put(ObjectStore& store, const PutRequest& request) {
  const std::uint64_t object = begin(store, request);
  REQUIRE(store.commit(writer, object).ok());
  return object;
}

void put_nothing(ObjectStore& store, std::int64_t version, std::uint64_t id = the_step) {
  PutRequest request = within(version, 0, 1, id);
  request.variable = "empty";
  REQUIRE(store.put_empty(writer, request, 1).ok());
}

/// Returns the step that a waiting get is told; nothing: the get does not wait.
std::optional<std::uint64_t> waits_for(ObjectStore& store, const GetRequest& request) {
  const auto result = store.get(reader, request);
  REQUIRE(result.ok());
  const auto* waiting = std::get_if<Waiting>(&*result);
  if (waiting != nullptr) return waiting->step;
  if (const auto* found = std::get_if<FoundObjects>(&*result)) {
    REQUIRE(store.release(reader, found->lease).ok());
  }
  return std::nullopt;
}

bool is_seen(ObjectStore& store, std::int64_t version, std::int64_t lower = 0,
             std::int64_t upper = 4) {
  return !waits_for(store, get_of(VersionChoice::exact, version, lower, upper));
}

std::variant<Extent, Waiting> extent_of(const ObjectStore& store, const std::string& variable,
                                        VersionChoice choice, std::int64_t version) {
  const auto found = store.extent({variable, choice, version, cell, {}});
  REQUIRE(found.ok());
  return *found;
}

bool has_extent(const ObjectStore& store, const std::string& variable, std::int64_t version) {
  return std::holds_alternative<Extent>(extent_of(store, variable, VersionChoice::exact, version));
}

std::int64_t objects_of(const ObjectStore& store) {
  std::int64_t objects = 0;
  for (const VariableInfo& info : store.list()) {
    for (const VersionInfo& version : info.versions) objects += version.objects;
  }
  return objects;
}

/// Returns the state of an object, as a reader learns it that another server has sent here.
LeasedObject leased(ObjectStore& store, std::int64_t version, std::uint64_t object) {
  std::uint64_t lease = 0;
  const auto found = store.lease(reader, "energy", version, {&object, 1}, lease);
  REQUIRE(found.ok() && found->size() == 1);
  REQUIRE(store.release(reader, lease).ok());
  return found->front();
}

}  // namespace

TEST(what_is_put_within_a_step_is_seen_when_the_step_is_whole) {
  ObjectStore store(options_of(1 << 16));
  const std::uint64_t object = put(store, within(1, 0, 4));
  put(store, within(1, 4, 8));
  put_nothing(store, 1);
  EXPECT_EQ(store.withheld_steps(), 1U);
  EXPECT(waits_for(store, get_of(VersionChoice::exact, 1, 0, 4)) == the_step);
  EXPECT(waits_for(store, get_of(VersionChoice::next, 0, 0, 4)) == the_step);
  EXPECT(waits_for(store, get_of(VersionChoice::latest, 9, 0, 4)) == the_step);
  EXPECT(waits_for(store, get_of(VersionChoice::next, 1, 0, 4)) == 0U);
  EXPECT(!has_extent(store, "energy", 1) && !has_extent(store, "empty", 1));
  EXPECT_EQ(std::get<Waiting>(extent_of(store, "empty", VersionChoice::next, 0)).step, the_step);
  EXPECT(objects_of(store) == 0 && !store.describe("energy"));
  EXPECT(leased(store, 1, object).state == LeasedObject::State::begun);
  EXPECT_EQ(leased(store, 1, object).step, the_step);
  EXPECT(!store.commit(writer, object).ok() && !store.abort(writer, object).ok());
  (void)store.take_changes();
  store.end_step(the_step, StepState::whole);
  const auto changes = store.take_changes();
  EXPECT(changes.contains("energy") && changes.contains("empty"));
  EXPECT(is_seen(store, 1, 0, 8));
  EXPECT(has_extent(store, "energy", 1) && has_extent(store, "empty", 1));
  EXPECT_EQ(leased(store, 1, object).step, 0U);
  EXPECT(leased(store, 1, object).state == LeasedObject::State::here);
  EXPECT_EQ(store.withheld_steps(), 0U);
  store.end_step(the_step, StepState::broken);  // it has ended
  EXPECT(is_seen(store, 1, 0, 8));
}

TEST(what_is_put_within_a_step_goes_when_the_step_is_broken) {
  ObjectStore store(options_of(1 << 16));
  put(store, within(1, 0, 4));
  put_nothing(store, 1);
  (void)store.take_changes();
  store.end_step(the_step, StepState::broken);
  EXPECT(store.take_changes().contains(""));  // there is room
  EXPECT_EQ(store.memory_bytes_used(), 0);
  EXPECT_EQ(store.withheld_steps(), 0U);
  EXPECT(!is_seen(store, 1) && !has_extent(store, "energy", 1) && !has_extent(store, "empty", 1));
  // Another attempt may put the same, of another type even: nothing was ever seen of the variable.
  PutRequest anew = within(1, 0, 4, the_step + 1);
  anew.type = "f4";
  anew.element_bytes = 4;
  put(store, anew);
  store.end_step(the_step + 1, StepState::whole);
  EXPECT(is_seen(store, 1));
}

TEST(a_step_is_named_beside_what_is_found) {
  ObjectStore store(options_of(1 << 16));
  put(store, put_of(1, 0, 4));
  put(store, put_of(3, 0, 4));
  put(store, within(2, 0, 4));
  const auto step_of = [&](VersionChoice choice, std::int64_t version) {
    const auto got = store.get(reader, get_of(choice, version, 0, 4));
    REQUIRE(got.ok() && std::holds_alternative<FoundObjects>(*got));
    const auto found = store.find(reader, get_of(choice, version, 0, 4));
    REQUIRE(found.ok() && std::holds_alternative<FoundObjects>(*found));
    const std::uint64_t named = std::get<FoundObjects>(*got).step;
    EXPECT_EQ(std::get<FoundObjects>(*found).step, named);
    EXPECT_EQ(std::get<Extent>(extent_of(store, "energy", choice, version)).step, named);
    return named;
  };
  EXPECT_EQ(step_of(VersionChoice::next, 1), the_step);
  EXPECT_EQ(step_of(VersionChoice::next, 2), 0U);
  EXPECT_EQ(step_of(VersionChoice::next, 0), 0U);
  EXPECT_EQ(step_of(VersionChoice::latest, 2), the_step);
  EXPECT_EQ(step_of(VersionChoice::latest, 3), 0U);
  EXPECT_EQ(step_of(VersionChoice::exact, 1), 0U);
  // Of a version that is there in part, the bounds may become wider.
  put(store, within(3, 4, 8));
  EXPECT(waits_for(store, get_of(VersionChoice::exact, 3, 0, 8)) == the_step);
  EXPECT_EQ(std::get<Extent>(extent_of(store, "energy", VersionChoice::exact, 3)).step, the_step);
  const auto found = store.find(reader, get_of(VersionChoice::exact, 3, 0, 8));
  EXPECT(found.ok() && std::get<FoundObjects>(*found).step == the_step);
}

TEST(what_comes_after_the_end_of_its_step_is_refused) {
  for (const bool whole : {true, false}) {
    ObjectStore store(options_of(1 << 16));
    put(store, within(1, 4, 8));
    const std::uint64_t late = begin(store, within(1, 0, 4));
    store.end_step(the_step, whole ? StepState::whole : StepState::broken);
    const auto committed = store.commit(writer, late);
    REQUIRE(!committed.ok());
    EXPECT(committed.error().code == ErrorCode::not_found);
    EXPECT(committed.error().text().find("begin the next step") != std::string::npos);
    EXPECT(!store.begin(writer, within(2, 0, 4)).ok());
    EXPECT(!store.index(writer, within(2, 0, 4), {{1, 5}}).ok());
    EXPECT(!store.put_empty(writer, within(2, 0, 1), 1).ok());
    EXPECT(!is_seen(store, 1) && is_seen(store, 1, 4, 8) == whole);
    EXPECT(!store.busy());
    EXPECT_EQ(objects_of(store), whole ? 1 : 0);
    EXPECT_EQ(store.withheld_steps(), 0U);
  }
}

TEST(an_object_of_a_step_hides_those_before_it_and_no_later_ones) {
  ObjectStore store(options_of(1 << 16));
  put(store, put_of(1, 0, 4));
  put(store, within(1, 0, 2));  // hidden by the next one
  put(store, within(1, 0, 4));
  EXPECT_EQ(objects_of(store), 1);
  EXPECT(is_seen(store, 1));
  store.end_step(the_step, StepState::whole);
  EXPECT_EQ(objects_of(store), 1);
  EXPECT(is_seen(store, 1));
  // What was put plainly meanwhile is later, and hides what is shown after it.
  put(store, within(2, 0, 4, the_step + 1));
  put(store, within(2, 4, 8, the_step + 1));
  put(store, put_of(2, 0, 3));
  put(store, put_of(2, 3, 5));
  store.end_step(the_step + 1, StepState::whole);
  EXPECT_EQ(objects_of(store), 1 + 3);
  EXPECT(is_seen(store, 2, 0, 8));
  put(store, put_of(2, 5, 8));  // what hides it came in part before it was shown
  EXPECT_EQ(objects_of(store), 1 + 3);
}

TEST(objects_of_a_step_are_shown_in_the_order_of_their_commits) {
  ObjectStore store(options_of(1 << 16));
  const std::uint64_t first = begin(store, within(1, 0, 4));
  const std::uint64_t second = begin(store, within(1, 0, 4));
  REQUIRE(store.commit(writer, second).ok() && store.commit(writer, first).ok());
  store.end_step(the_step, StepState::whole);
  const auto got = store.get(reader, get_of(VersionChoice::exact, 1, 0, 4));
  REQUIRE(got.ok() && std::holds_alternative<FoundObjects>(*got));
  EXPECT_EQ(std::get<FoundObjects>(*got).objects[0].object, first);
  EXPECT_EQ(objects_of(store), 1);
}

TEST(what_is_withheld_hides_nothing) {
  ObjectStore store(options_of(1 << 16));
  const std::uint64_t object = put(store, put_of(1, 0, 8));
  // Later, elsewhere: one that another step has put, and one that is only under way.
  REQUIRE(store.index(writer, within(1, 0, 4), {{1, 50}}).ok());
  store.confirm(writer, "energy", 1, {1, 50}, 10);
  REQUIRE(store.index(writer, put_of(1, 4, 6), {{1, 51}}).ok());
  put(store, put_of(1, 4, 8));
  put(store, put_of(1, 4, 8));
  EXPECT(leased(store, 1, object).state == LeasedObject::State::here);
  // An entry is confirmed late, whose box is in that of the withheld one.
  REQUIRE(store.index(writer, put_of(1, 1, 2), {{1, 52}, true}).ok());
  store.confirm(writer, "energy", 1, {1, 52}, 9);
  EXPECT(store.take_orphans(8).empty());
  store.end_step(the_step, StepState::whole);
  EXPECT(leased(store, 1, object).state == LeasedObject::State::gone);
  EXPECT_EQ(store.take_orphans(8).size(), 1U);
}

TEST(entries_of_a_step_are_confirmed_when_it_is_whole) {
  ObjectStore::Options options = options_of(1 << 16);
  options.versions_max = 1;
  ObjectStore store(options);
  put(store, put_of(1, 0, 4));
  REQUIRE(store.index(writer, within(2, 0, 4), {{1, 50}}).ok());
  EXPECT_EQ(store.withheld_steps(), 1U);
  EXPECT(waits_for(store, get_of(VersionChoice::next, 1, 5, 6)) == the_step);
  store.confirm(writer, "energy", 2, {1, 50}, 10);
  EXPECT(!store.busy());
  store.unindex(writer, "energy", 2, {1, 50});  // the object was committed
  EXPECT(is_seen(store, 1));                    // the version counts for no limit yet
  store.end_step(the_step, StepState::whole);
  EXPECT(!store.get(reader, get_of(VersionChoice::exact, 1, 0, 4)).ok());  // it was discarded
  EXPECT(std::holds_alternative<NeedsOtherServers>(
      *store.get(reader, get_of(VersionChoice::exact, 2, 0, 4))));
  EXPECT_EQ(store.withheld_steps(), 0U);
}

TEST(an_entry_that_is_confirmed_after_the_end_of_its_step_counts_at_once) {
  ObjectStore::Options options = options_of(1 << 16);
  options.versions_max = 1;
  ObjectStore store(options);
  put(store, put_of(1, 0, 4));
  REQUIRE(store.index(writer, within(2, 0, 4), {{1, 50}}).ok());
  store.end_step(the_step, StepState::whole);
  EXPECT(is_seen(store, 1));
  store.confirm(writer, "energy", 2, {1, 50}, 10);
  EXPECT(!store.get(reader, get_of(VersionChoice::exact, 1, 0, 4)).ok());
  EXPECT(!store.busy());
}

TEST(entries_of_a_broken_step_go) {
  ObjectStore store(options_of(1 << 16));
  REQUIRE(store.index(writer, within(1, 0, 4), {{1, 50}, true}).ok());
  REQUIRE(store.index(writer, within(1, 4, 8), {{1, 51}, true}).ok());
  REQUIRE(store.index(other, within(1, 8, 9), {{1, 52}, true}).ok());
  store.confirm(writer, "energy", 1, {1, 51}, 10);
  store.lost(other);
  store.end_step(the_step, StepState::broken);
  EXPECT(!store.busy() && store.withheld_steps() == 0);
  EXPECT(store.take_orphans(8).empty());  // their primaries drop them with the step
  store.confirm(writer, "energy", 1, {1, 50}, 10);
  EXPECT(waits_for(store, get_of(VersionChoice::next, 0, 0, 4)) == 0U);
  put(store, put_of(1, 0, 4));
  EXPECT(is_seen(store, 1));
}

TEST(a_withheld_object_whose_version_is_discarded_goes) {
  ObjectStore store(options_of(1 << 16));
  put(store, within(1, 0, 4));
  put(store, within(2, 0, 4));
  const std::uint64_t late = begin(store, within(1, 4, 8));
  REQUIRE(store.index(writer, within(1, 0, 4), {{1, 50}, true}).ok());
  store.confirm(writer, "energy", 1, {1, 50}, 10);
  put_nothing(store, 1);
  REQUIRE(store.discard("energy", 1).ok() && store.discard("empty", 1).ok());
  EXPECT(store.take_orphans(8) == (std::vector<Orphan>{{1, 50}}));
  EXPECT(!store.commit(writer, late).ok());
  EXPECT_EQ(store.withheld_steps(), 1U);  // version 2 has something of the step
  store.end_step(the_step, StepState::whole);
  EXPECT(!store.get(reader, get_of(VersionChoice::exact, 1, 0, 4)).ok());
  EXPECT(is_seen(store, 2));
  EXPECT(!store.extent({"empty", VersionChoice::exact, 1, cell, {}}).ok());
  EXPECT(!store.begin(writer, within(1, 0, 4, the_step + 1)).ok());
  REQUIRE(store.discard("energy", 2).ok());
  EXPECT_EQ(store.memory_bytes_used(), 0);
}

TEST(nothing_is_kept_of_a_step_of_which_nothing_is_withheld_any_more) {
  ObjectStore store(options_of(1 << 16));
  for (std::int64_t version = 1; version < 1000; ++version) {
    put(store, within(version, 0, 4));
    REQUIRE(store.index(writer, within(version, 0, 4), {{1, 50}}).ok());
    put_nothing(store, version);
    put_nothing(store, version);  // the first one counts
    EXPECT_EQ(store.withheld_steps(), 1U);
    REQUIRE(store.discard("energy", version).ok() && store.discard("empty", version).ok());
    EXPECT_EQ(store.withheld_steps(), 0U);
  }
  REQUIRE(store.index(writer, within(1000, 0, 4), {{1, 50}}).ok());
  store.unindex(writer, "energy", 1000, {1, 50});
  EXPECT_EQ(store.withheld_steps(), 0U);
}

TEST(what_is_withheld_goes_with_its_variable) {
  ObjectStore store(options_of(1 << 16));
  put(store, within(1, 0, 4));
  put_nothing(store, 1);
  EXPECT(store.remove("energy", 1) && store.remove("empty", 1));
  EXPECT(store.memory_bytes_used() == 0 && store.withheld_steps() == 0);
  // A variable of the same name is another one, and so is what is withheld of it.
  PutRequest anew = within(1, 0, 4, the_step + 1);
  anew.incarnation = {2, 2};
  put(store, anew);
  store.end_step(the_step, StepState::broken);
  store.end_step(the_step + 1, StepState::whole);
  EXPECT(is_seen(store, 1));
  EXPECT(!has_extent(store, "empty", 1));
}

TEST(an_orphan_of_a_step_goes) {
  for (const bool whole : {true, false}) {
    ObjectStore store(options_of(1 << 16));
    const auto room = store.begin(writer, within(1, 0, 4), {Effort::free_memory, 0, true, {2}});
    REQUIRE(room.ok());
    const std::uint64_t object = std::get<GrantedRoom>(*room).object;
    REQUIRE(store.commit(writer, object).ok());
    store.drop_orphan(object, 2);
    EXPECT(store.memory_bytes_used() == 0 && store.withheld_steps() == 0);
    EXPECT(waits_for(store, get_of(VersionChoice::exact, 1, 0, 4)) == 0U);
    store.end_step(the_step, whole ? StepState::whole : StepState::broken);
    EXPECT(!is_seen(store, 1));
  }
}

TEST(what_a_client_has_put_within_a_step_stays_when_the_client_goes) {
  ObjectStore store(options_of(1 << 16));
  put(store, within(1, 0, 4));
  put_nothing(store, 1);
  const std::uint64_t begun = begin(store, within(1, 4, 8));
  store.lost(writer);
  EXPECT(store.fenced_bytes() > 0 && !store.commit(writer, begun).ok());
  store.gone(writer);
  EXPECT(store.fenced_bytes() == 0 && store.withheld_steps() == 1);
  store.end_step(the_step, StepState::whole);  // another writer has ended it for both
  EXPECT(is_seen(store, 1) && has_extent(store, "empty", 1));
  EXPECT_EQ(objects_of(store), 1);
}

TEST(an_entry_of_a_lost_client_is_left_to_its_primary) {
  ObjectStore store(options_of(1 << 16));
  REQUIRE(store.index(writer, within(1, 0, 4), {{1, 50}}).ok());
  REQUIRE(store.index(writer, within(1, 4, 8), {{1, 51}}).ok());
  store.confirm(writer, "energy", 1, {1, 51}, 10);
  store.lost(writer);
  store.confirm(other, "energy", 1, {1, 50}, 11);  // a reader that has found it does so
  store.end_step(the_step, StepState::whole);
  const auto found = store.find(reader, get_of(VersionChoice::exact, 1, 0, 8));
  REQUIRE(found.ok() && std::holds_alternative<FoundObjects>(*found));
  EXPECT_EQ(std::get<FoundObjects>(*found).objects.size(), 2U);
  EXPECT_EQ(std::get<FoundObjects>(*found).step, 0U);
  REQUIRE(store.release(reader, std::get<FoundObjects>(*found).lease).ok());
  EXPECT(!store.busy());
}

TEST(a_withheld_object_goes_to_disk_and_comes_back) {
  ObjectStore::Options options = options_of(4096);
  options.full = Full::spill;
  ObjectStore store(options);
  const auto carry_out = [&] {
    for (auto moves = store.take_moves(); !moves.empty(); moves = store.take_moves()) {
      for (const Move& move : moves) {
        if (move.kind != Move::Kind::drop) store.ended(move, {});
      }
    }
  };
  put(store, within(1, 0, 256));
  put(store, within(1, 256, 512));
  auto third = store.begin(writer, within(2, 0, 256, the_step + 1));
  REQUIRE(third.ok() && std::holds_alternative<Waiting>(*third));
  carry_out();
  third = store.begin(writer, within(2, 0, 256, the_step + 1));
  REQUIRE(third.ok() && std::holds_alternative<GrantedRoom>(*third));
  REQUIRE(store.commit(writer, std::get<GrantedRoom>(*third).object).ok());
  EXPECT(store.spilled_bytes() > 0);
  store.end_step(the_step, StepState::whole);
  const auto got = store.get(reader, get_of(VersionChoice::exact, 1, 0, 256));
  REQUIRE(got.ok() && std::holds_alternative<FoundObjects>(*got));
  const FoundObjects& found = std::get<FoundObjects>(*got);
  REQUIRE(found.objects.size() == 1);
  EXPECT(found.objects[0].range.segment < 0);
  auto back = store.recall(reader, found.lease, found.objects[0].object);
  REQUIRE(back.ok());
  carry_out();
  back = store.recall(reader, found.lease, found.objects[0].object);
  EXPECT(back.ok() && std::holds_alternative<Range>(*back));
  REQUIRE(store.release(reader, found.lease).ok());
  store.end_step(the_step + 1, StepState::broken);
  REQUIRE(store.discard("energy", 1).ok());
  carry_out();
  EXPECT(store.memory_bytes_used() == 0 && store.spilled_bytes() == 0);
  EXPECT_EQ(store.disk_bytes_used(), 0);
}

TEST(what_is_withheld_counts_for_no_limit_of_versions_and_keeps_its_memory) {
  ObjectStore::Options options = options_of(4096);
  options.versions_max = 1;
  options.full = Full::discard_oldest;
  ObjectStore store(options);
  put(store, put_of(1, 0, 256));
  put(store, within(2, 0, 256));
  EXPECT(is_seen(store, 1));
  // The oldest version is discarded to make room, and nothing that is withheld.
  put(store, put_of(3, 0, 256));
  EXPECT(!store.get(reader, get_of(VersionChoice::exact, 1, 0, 4)).ok());
  const auto full = store.begin(writer, within(4, 0, 512, the_step + 1));
  REQUIRE(full.ok() && std::holds_alternative<Waiting>(*full));
  EXPECT(!store.get(reader, get_of(VersionChoice::exact, 3, 0, 4)).ok());
  store.end_step(the_step, StepState::whole);
  EXPECT(is_seen(store, 2));
  put(store, within(4, 0, 256, the_step + 1));
  EXPECT(is_seen(store, 2));
  store.end_step(the_step + 1, StepState::whole);
  EXPECT(is_seen(store, 4) && !store.get(reader, get_of(VersionChoice::exact, 2, 0, 4)).ok());
}

TEST(a_version_that_becomes_whole_below_those_that_are_kept_goes_at_once) {
  ObjectStore::Options options = options_of(1 << 16);
  options.versions_max = 1;
  ObjectStore store(options);
  put(store, within(2, 0, 4));
  put_nothing(store, 2);
  put(store, put_of(3, 0, 4));
  store.end_step(the_step, StepState::whole);
  EXPECT(!store.get(reader, get_of(VersionChoice::exact, 2, 0, 4)).ok());
  EXPECT(is_seen(store, 3) && has_extent(store, "empty", 2));
  EXPECT_EQ(objects_of(store), 1);
}

TEST(steps_that_never_end_count_as_ended_when_they_are_many) {
  WithheldSteps steps;
  for (std::uint64_t id = 1; id <= 2 * WithheldSteps::gaps_max; id += 2) (void)steps.end(id + 1);
  EXPECT(!steps.has_ended(1) && steps.has_ended(2) && !steps.has_ended(3));
  (void)steps.end(2 * WithheldSteps::gaps_max + 2);
  EXPECT(steps.has_ended(2) && steps.has_ended(3) && !steps.has_ended(5));
}
