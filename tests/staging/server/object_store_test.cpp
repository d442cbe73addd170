// What a staging server promises, without processes: each get is compared with a grid of cells.
#include "staging/server/object_store.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <random>

#include "staging/stores.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

GetRequest get_of(VersionChoice choice, std::int64_t version, std::int64_t lower,
                  std::int64_t upper) {
  return {"energy", choice, version, *Box::make({lower}, {upper})};
}

std::uint64_t begun(ObjectStore& store, const PutRequest& request,
                    ClientConnection client = writer) {
  const auto result = store.begin(client, request);
  REQUIRE(result.ok());
  REQUIRE(std::holds_alternative<GrantedRoom>(*result));
  return std::get<GrantedRoom>(*result).object;
}

void put(ObjectStore& store, const PutRequest& request, ClientConnection client = writer) {
  REQUIRE(store.commit(client, begun(store, request, client)).ok());
}

FoundObjects got(ObjectStore& store, const GetRequest& request) {
  const auto result = store.get(reader, request);
  REQUIRE(result.ok());
  REQUIRE(std::holds_alternative<FoundObjects>(*result));
  return std::get<FoundObjects>(*result);
}

std::string waits(ObjectStore& store, const GetRequest& request) {
  const auto result = store.get(reader, request);
  REQUIRE(result.ok());
  REQUIRE(std::holds_alternative<Waiting>(*result));
  return std::get<Waiting>(*result).why;
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST(an_object_is_seen_from_its_commit_on) {
  ObjectStore store(options_of(1 << 16));
  EXPECT(says(waits(store, get_of(VersionChoice::exact, 1, 0, 4)), "nothing has been put"));
  const std::uint64_t object = begun(store, put_of(1, 0, 4));
  EXPECT(says(waits(store, get_of(VersionChoice::exact, 1, 0, 4)), "lacks (0:4)"));
  EXPECT(!store.commit(reader, object).ok());  // the object of another client
  REQUIRE(store.commit(writer, object).ok());
  EXPECT(!store.commit(writer, object).ok());
  EXPECT(!store.abort(writer, object).ok());
  const FoundObjects found = got(store, get_of(VersionChoice::exact, 1, 1, 3));
  REQUIRE(found.objects.size() == 1);
  EXPECT_EQ(found.objects[0].box.text(), "(0:4)");
  EXPECT(says(waits(store, get_of(VersionChoice::exact, 1, 2, 6)), "lacks (4:6)"));
  EXPECT(says(waits(store, get_of(VersionChoice::exact, 2, 0, 4)),
              "version 2 of \"energy\" is not there"));
}

TEST(next_and_latest) {
  ObjectStore store(options_of(1 << 16));
  for (const int version : {3, 5, 9}) put(store, put_of(version, 0, 4));
  put(store, put_of(12, 0, 2));
  EXPECT_EQ(got(store, get_of(VersionChoice::next, INT64_MIN, 0, 4)).version, 3);
  EXPECT_EQ(got(store, get_of(VersionChoice::next, 3, 0, 4)).version, 5);
  EXPECT(says(waits(store, get_of(VersionChoice::next, 9, 0, 4)),
              "version 12 of \"energy\" lacks (2:4)"));
  EXPECT(says(waits(store, get_of(VersionChoice::next, 12, 0, 4)),
              "no version of \"energy\" after 12"));
  EXPECT_EQ(got(store, get_of(VersionChoice::latest, INT64_MAX, 0, 4)).version, 9);
  EXPECT_EQ(got(store, get_of(VersionChoice::latest, INT64_MAX, 0, 2)).version, 12);
  EXPECT_EQ(got(store, get_of(VersionChoice::latest, 8, 0, 4)).version, 5);
  put(store, put_of(20, 2, 4));
  // Version 12 has nothing of the box.
  EXPECT_EQ(got(store, get_of(VersionChoice::next, 9, 2, 3)).version, 20);
}

TEST(what_does_not_fit_the_variable_is_refused) {
  ObjectStore store(options_of(1 << 16));
  put(store, put_of(1, 0, 4));
  PutRequest other = put_of(1, 4, 8);
  other.type = "f4";
  other.element_bytes = 4;
  EXPECT(!store.begin(writer, other).ok());
  other = put_of(1, 4, 8);
  other.box = *Box::make({0, 0}, {1, 1});
  EXPECT(!store.begin(writer, other).ok());
  GetRequest flat = get_of(VersionChoice::exact, 1, 0, 1);
  flat.box = other.box;
  EXPECT(!store.get(reader, flat).ok());
  other = put_of(1, 0, 100000);
  const auto large = store.begin(writer, other);
  REQUIRE(!large.ok());
  EXPECT(large.error().code == ErrorCode::out_of_memory);
}

TEST(a_full_store_blocks_until_a_version_is_discarded_and_not_read_any_more) {
  ObjectStore store(options_of(4096));
  put(store, put_of(1, 0, 256));
  put(store, put_of(2, 0, 256));
  const FoundObjects reading = got(store, get_of(VersionChoice::exact, 1, 0, 10));
  const auto full = store.begin(writer, put_of(3, 0, 256));
  REQUIRE(full.ok());
  REQUIRE(std::holds_alternative<Waiting>(*full));
  EXPECT(says(std::get<Waiting>(*full).why, "is full"));
  (void)store.take_changes();
  REQUIRE(store.discard("energy", 1).ok());
  EXPECT(!store.take_changes().contains(""));  // the version is still being read
  EXPECT(std::holds_alternative<Waiting>(*store.begin(writer, put_of(3, 0, 256))));
  REQUIRE(store.release(reader, reading.lease).ok());
  EXPECT(!store.release(reader, reading.lease).ok());
  EXPECT(store.take_changes().contains(""));
  put(store, put_of(3, 0, 256));
  const auto gone = store.get(reader, get_of(VersionChoice::exact, 1, 0, 10));
  REQUIRE(!gone.ok());
  EXPECT(gone.error().code == ErrorCode::not_found);
  EXPECT(says(gone.error().text(), "was discarded; held are 2 to 3"));
  EXPECT(!store.begin(writer, put_of(1, 0, 1)).ok());
  EXPECT(!store.discard("energy", 1).ok());
}

TEST(the_oldest_versions_make_room_if_the_store_is_told_so) {
  ObjectStore::Options options = options_of(4096);
  options.full = Full::discard_oldest;
  ObjectStore store(options);
  for (int version = 1; version <= 10; ++version) put(store, put_of(version, 0, 256));
  EXPECT_EQ(got(store, get_of(VersionChoice::latest, INT64_MAX, 0, 256)).version, 10);
  EXPECT(!store.get(reader, get_of(VersionChoice::exact, 8, 0, 256)).ok());
  const FoundObjects nine = got(store, get_of(VersionChoice::exact, 9, 0, 256));
  const FoundObjects ten = got(store, get_of(VersionChoice::exact, 10, 0, 256));
  EXPECT(std::holds_alternative<Waiting>(*store.begin(writer, put_of(11, 0, 256))));
  REQUIRE(store.release(reader, nine.lease).ok());
  put(store, put_of(11, 0, 256));
  EXPECT_EQ(ten.objects.size(), 1U);
}

TEST(no_version_goes_while_memory_is_being_allocated) {
  ObjectStore::Options options = options_of(4096);
  options.full = Full::discard_oldest;
  ObjectStore store(options);
  REQUIRE(store.add_stock(4096).ok());
  put(store, put_of(1, 0, 256));  // takes half of it before its turn
  const auto claimed = store.claim_stock(4096);
  REQUIRE(claimed.has_value());
  EXPECT(std::holds_alternative<Waiting>(*store.begin(writer, put_of(2, 0, 256))));
  EXPECT_EQ(got(store, get_of(VersionChoice::exact, 1, 0, 256)).version, 1);
  (void)store.take_changes();
  store.return_stock(*claimed, true);
  EXPECT(!store.take_changes().empty());  // who waits asks again
  put(store, put_of(2, 0, 256));
  EXPECT_EQ(got(store, get_of(VersionChoice::exact, 1, 0, 256)).version, 1);
  put(store, put_of(3, 0, 256));  // 1 is being read
  EXPECT(!store.get(reader, get_of(VersionChoice::exact, 2, 0, 256)).ok());
}

TEST(a_machine_without_memory_says_so_and_what_is_there_stays) {
  ObjectStore::Options options = options_of(1 << 20);
  bool none = false;
  options.make_segment = [&](std::int64_t) {
    return none ? Status(Error{ErrorCode::out_of_memory, "the system has none"}) : Status{};
  };
  ObjectStore store(options);
  put(store, put_of(1, 0, 256));
  none = true;
  put(store, put_of(2, 0, 256));  // the object goes to the existing segment
  const auto refused = store.begin(writer, put_of(3, 0, 256));
  REQUIRE(!refused.ok());
  EXPECT(refused.error().code == ErrorCode::out_of_memory);
  EXPECT(says(refused.error().text(), "the system has none; free some there, or start"));
  EXPECT_EQ(got(store, get_of(VersionChoice::exact, 2, 0, 256)).version, 2);
  none = false;
  put(store, put_of(3, 0, 256));
}

TEST(where_the_system_has_no_more_memory_objects_make_room_as_told) {
  for (const Full full : {Full::discard_oldest, Full::spill}) {
    ObjectStore::Options options = options_of(1 << 20);
    options.full = full;
    options.spill_bytes = 1 << 30;
    bool none = false;
    options.make_segment = [&](std::int64_t) {
      return none ? Status(Error{ErrorCode::out_of_memory, "the system has none"}) : Status{};
    };
    ObjectStore store(options);
    put(store, put_of(1, 0, 256));
    none = true;
    put(store, put_of(2, 0, 256));
    auto third = store.begin(writer, put_of(3, 0, 256));
    REQUIRE(third.ok());
    if (full == Full::spill) {
      REQUIRE(std::holds_alternative<Waiting>(*third));
      EXPECT(says(std::get<Waiting>(*third).why, "the system has none"));
      const auto moves = store.take_moves();
      REQUIRE(!moves.empty());
      for (const Move& move : moves) store.ended(move, {});
      third = store.begin(writer, put_of(3, 0, 256));
      REQUIRE(third.ok());
    }
    EXPECT(std::holds_alternative<GrantedRoom>(*third));
    // Nothing is discarded for an object that would not fit even then.
    EXPECT(!store.begin(writer, put_of(4, 0, 1024)).ok());
    EXPECT_EQ(got(store, get_of(VersionChoice::exact, 2, 0, 256)).version, 2);
  }
}

TEST(no_more_versions_are_kept_than_asked_for) {
  ObjectStore::Options options = options_of(1 << 20);
  options.versions_max = 2;
  ObjectStore store(options);
  const std::uint64_t slow = begun(store, put_of(1, 0, 4));
  for (int version = 2; version <= 4; ++version) put(store, put_of(version, 0, 4));
  REQUIRE(store.commit(writer, slow).ok());  // the oldest version is committed last
  const auto info = store.list();
  REQUIRE(info.size() == 1 && info[0].versions.size() == 2);
  EXPECT_EQ(info[0].versions[0].version, 3);
  EXPECT(!store.begin(writer, put_of(2, 0, 4)).ok());
  EXPECT(!store.begin(writer, put_of(0, 0, 4)).ok());  // the version would be discarded at once
}

TEST(what_is_begun_ends_with_its_writer_or_its_version) {
  ObjectStore store(options_of(1 << 16));
  put(store, put_of(1, 0, 4));
  const std::uint64_t half = begun(store, put_of(2, 0, 4), 7);
  store.gone(7);
  EXPECT(!store.commit(7, half).ok());
  EXPECT(!store.busy());
  const std::uint64_t late = begun(store, put_of(1, 4, 8), 7);
  EXPECT(store.busy());
  REQUIRE(store.discard("energy", 1).ok());
  const auto refused = store.commit(7, late);
  REQUIRE(!refused.ok());
  EXPECT(says(refused.error().text(), "was discarded while it was put"));
  EXPECT_EQ(store.memory_bytes_used(), 0);
  EXPECT(!store.busy());
}

TEST(a_version_that_others_have_discarded_is_refused_where_nothing_of_it_was) {
  ObjectStore store(options_of(1 << 16));
  const auto refuses = [&](std::int64_t version) {
    const auto begun = store.begin(writer, put_of(version, 0, 4));
    const auto got = store.get(reader, get_of(VersionChoice::exact, version, 0, 4));
    return !begun && begun.error().code == ErrorCode::not_found && !got &&
           got.error().code == ErrorCode::not_found;
  };
  // The server does not know the variable: it has nothing to list, and remembers the version.
  REQUIRE(store.discard_too(put_of(1, 8, 9)).ok());
  REQUIRE(store.discard_too(put_of(1, 8, 9)).ok());
  EXPECT(store.list().empty() && refuses(1));
  put(store, put_of(2, 0, 4));
  EXPECT(!store.discard("energy", 3).ok());  // nobody has it, and it may come
  put(store, put_of(3, 0, 4));
  // Readers that wait for the version search again.
  EXPECT(says(waits(store, get_of(VersionChoice::exact, 4, 0, 4)), "is not there"));
  (void)store.take_changes();
  REQUIRE(store.discard_too(put_of(4, 8, 9)).ok());
  EXPECT(store.take_changes().contains("energy") && refuses(4));
  // What has come meanwhile goes.
  const std::uint64_t object = begun(store, put_of(5, 0, 4));
  put(store, put_of(5, 4, 8));
  REQUIRE(store.discard_too(put_of(5, 8, 9)).ok());
  EXPECT(!store.commit(writer, object).ok());
  EXPECT(refuses(5));
  EXPECT_EQ(store.memory_bytes_used(), 2 * 256);
  EXPECT_EQ(got(store, get_of(VersionChoice::exact, 3, 0, 4)).version, 3);
}

TEST(a_discard_of_a_deleted_variable_means_that_one) {
  ObjectStore store(options_of(1 << 16));
  PutRequest old = put_of(1, 0, 4);
  PutRequest anew = old;
  old.incarnation = {1, 1};
  anew.incarnation = {3, 3};
  put(store, anew);
  const Status status = store.discard_too(old);
  EXPECT(!status && status.error().code == ErrorCode::not_found);
  const FoundObjects reading = got(store, get_of(VersionChoice::exact, 1, 0, 4));
  EXPECT_EQ(reading.version, 1);
  REQUIRE(store.release(reader, reading.lease).ok());
  // What the server has of a variable that was deleted goes with the first word of the next one.
  anew.incarnation = {5, 5};
  anew.type = "i8";
  anew.version = 2;
  REQUIRE(store.discard_too(anew).ok());
  EXPECT(store.list().empty());
  EXPECT_EQ(store.memory_bytes_used(), 0);
  anew.version = 1;
  put(store, anew);
}

TEST(objects_of_other_servers_are_named_and_leased_there) {
  ObjectStore::Options one = options_of(1 << 16);
  one.server = 1;
  ObjectStore primary(options_of(1 << 16));  // server 0
  ObjectStore client(one);
  put(client, put_of(5, 6, 9));
  const std::uint64_t object = begun(primary, put_of(5, 0, 8));
  const auto order = client.index(writer, put_of(5, 0, 8), {{0, object}});
  REQUIRE(order.ok());
  EXPECT_EQ(*order, 1U);
  EXPECT(!client.index(writer, put_of(5, 0, 8), {{0, object}}).ok());
  EXPECT(std::holds_alternative<NeedsOtherServers>(
      *client.get(reader, get_of(VersionChoice::exact, 5, 6, 7))));
  EXPECT(std::holds_alternative<FoundObjects>(
      *client.get(reader, get_of(VersionChoice::exact, 5, 8, 9))));
  const auto named = client.find(reader, get_of(VersionChoice::next, 0, 6, 7));
  REQUIRE(named.ok() && std::holds_alternative<FoundObjects>(*named));
  const FoundObjects& found = std::get<FoundObjects>(*named);
  REQUIRE(found.objects.size() == 2);
  EXPECT(found.objects[0].primary == 1 && found.objects[0].order == 1);
  EXPECT(found.objects[1].primary == 0 && found.objects[1].order == 0);
  EXPECT_EQ(found.objects[1].object, object);

  std::uint64_t lease = 0;
  const std::uint64_t asked[] = {object, 99};
  auto leased = primary.lease(reader, "energy", 5, asked, lease);
  REQUIRE(leased.ok() && leased->size() == 2);
  EXPECT((*leased)[0].state == LeasedObject::State::begun);
  EXPECT((*leased)[1].state == LeasedObject::State::gone);
  const auto committed = primary.commit(writer, object, *order);
  REQUIRE(committed.ok());
  EXPECT_EQ(*committed, 2U);  // above the object that it covers in part
  client.confirm(writer, "energy", 5, {0, object}, *committed);
  leased = primary.lease(reader, "energy", 5, asked, lease);
  REQUIRE(leased.ok());
  EXPECT((*leased)[0].state == LeasedObject::State::here && (*leased)[0].order == 2);
  const std::uint64_t next = begun(client, put_of(5, 7, 8));
  EXPECT_EQ(*client.commit(writer, next), 3U);

  REQUIRE(primary.discard("energy", 5).ok());
  EXPECT(!primary.lease(reader, "energy", 5, asked, lease).ok());
  client.unindex(writer, "energy", 5, {0, object});  // the object is committed: nobody may hide it
  EXPECT(std::holds_alternative<NeedsOtherServers>(
      *client.get(reader, get_of(VersionChoice::exact, 5, 6, 7))));
  REQUIRE(client.discard("energy", 5).ok());
  EXPECT(!client.index(writer, put_of(5, 0, 8), {{0, 100}}).ok());
}

TEST(what_a_request_was_granted_can_be_given_back) {
  ObjectStore store(options_of(1 << 16));
  put(store, put_of(1, 0, 4));
  const std::int64_t used = store.memory_bytes_used();
  REQUIRE(store.begin(writer, put_of(2, 0, 4), {Effort::all, 7}).ok());
  REQUIRE(store.begin(writer, put_of(3, 0, 4), {Effort::all, 8}).ok());
  REQUIRE(store.get(reader, get_of(VersionChoice::exact, 1, 0, 4), 7).ok());
  REQUIRE(store.find(reader, get_of(VersionChoice::exact, 1, 0, 4), 7).ok());
  EXPECT(store.undo(reader, 8).empty());  // request id 8 is the writer's
  EXPECT(store.undo(reader, 0).empty());
  EXPECT_EQ(store.undo(reader, 7).size(), 2U);
  EXPECT(store.undo(writer, 7).empty());  // request id 7 of the writer has room and no lease
  EXPECT_EQ(store.memory_bytes_used(), 2 * used);
  EXPECT(store.undo(writer, 8).empty());
  EXPECT_EQ(store.memory_bytes_used(), used);
  EXPECT(!store.busy());
  const std::uint64_t object = begun(store, put_of(4, 0, 4));
  EXPECT(store.undo(writer, 0).empty());  // no request has that id
  EXPECT(store.commit(writer, object).ok());
}

TEST(an_object_that_no_owner_knows_any_more_goes) {
  ObjectStore::Options one = options_of(1 << 16);
  one.versions_max = 1;
  ObjectStore client(one);
  ObjectStore helper(options_of(1 << 16));
  const auto helped = [&](std::int64_t version) {
    const PutRequest request = put_of(version, 0, 4);
    const auto room = helper.begin(writer, request, {Effort::free_memory, 0, true, {0, 2}});
    REQUIRE(room.ok());
    const std::uint64_t object = std::get<GrantedRoom>(*room).object;
    REQUIRE(client.index(writer, request, {{1, object}, true}).ok());
    return object;
  };
  const std::uint64_t first = helped(1);
  REQUIRE(helper.commit(writer, first).ok());
  client.confirm(writer, "energy", 1, {1, first}, 1);
  const std::uint64_t second = helped(2);
  EXPECT(client.take_orphans(8).empty());  // a put that has not ended changes nothing
  client.confirm(writer, "energy", 2, {1, second}, 2);
  auto orphans = client.take_orphans(8);
  REQUIRE(orphans.size() == 1);
  EXPECT_EQ(orphans[0].primary, 1);
  EXPECT_EQ(orphans[0].object, first);
  EXPECT(client.take_orphans(8).empty());
  helper.drop_orphan(first, 0);
  helper.drop_orphan(first, 0);  // a repeated report changes nothing
  const FoundObjects read = got(helper, get_of(VersionChoice::exact, 1, 0, 4));
  helper.drop_orphan(first, 2);
  std::uint64_t lease = 0;
  EXPECT(says(waits(helper, get_of(VersionChoice::exact, 1, 0, 4)), "is not there"));
  const std::int64_t used = helper.memory_bytes_used();
  REQUIRE(helper.release(reader, read.lease).ok());  // the lease kept the object until now
  EXPECT(helper.memory_bytes_used() < used);
  // A reader that has found the object at its index server looks there again.
  const auto leased = helper.lease(reader, "energy", 1, {&first, 1}, lease);
  REQUIRE(leased.ok() && leased->size() == 1);
  EXPECT(leased->front().state == LeasedObject::State::gone);
  REQUIRE(helper.release(reader, lease).ok());
  // An object that is being written can no longer be committed.
  helper.drop_orphan(second, 2);
  helper.drop_orphan(second, 0);
  const auto late = helper.commit(writer, second);
  EXPECT(!late && late.error().code == ErrorCode::not_found);
  EXPECT_EQ(helper.memory_bytes_used(), 0);
  EXPECT(!helper.busy());
  // An object that is not on an overflow server is never dropped as an orphan.
  put(helper, put_of(3, 0, 4));
  helper.drop_orphan(3, 0);
  EXPECT_EQ(got(helper, get_of(VersionChoice::exact, 3, 0, 4)).version, 3);
  // A primary that is an index server itself gets no report: its entry leaves no orphan.
  REQUIRE(client.index(writer, put_of(3, 0, 4), {{2, 9}}).ok());
  client.confirm(writer, "energy", 3, {2, 9}, 3);
  REQUIRE(client.take_orphans(8).size() == 1);
  REQUIRE(client.index(writer, put_of(4, 0, 4), {{2, 10}}).ok());
  client.confirm(writer, "energy", 4, {2, 10}, 4);
  EXPECT(client.take_orphans(8).empty());
}

TEST(a_reader_that_is_gone_reads_no_more) {
  ObjectStore store(options_of(2048));
  put(store, put_of(1, 0, 256));
  (void)got(store, get_of(VersionChoice::exact, 1, 0, 256));
  REQUIRE(store.discard("energy", 1).ok());
  EXPECT(std::holds_alternative<Waiting>(*store.begin(writer, put_of(2, 0, 256))));
  store.gone(reader);
  put(store, put_of(2, 0, 256));
  EXPECT_EQ(store.memory_bytes_used(), 2048);
}

/// Returns a store with memory for so many objects of 256 elements, and with a disk.
ObjectStore spilling(std::int64_t objects) {
  ObjectStore::Options options = options_of(2048 * objects);
  options.segment_bytes = 2048 * objects;
  options.full = Full::spill;
  return ObjectStore(options);
}

/// Carries out all moves; returns the number of moves out and in.
int move_all(ObjectStore& store, const Status& status = {}) {
  int count = 0;
  for (auto moves = store.take_moves(); !moves.empty(); moves = store.take_moves()) {
    for (const Move& move : moves) {
      if (move.kind == Move::Kind::drop) continue;
      store.ended(move, status);
      ++count;
    }
  }
  return count;
}

/// Puts like a client that asks again when the store has changed.
void put_spilling(ObjectStore& store, const PutRequest& request) {
  auto room = store.begin(writer, request);
  if (std::holds_alternative<Waiting>(*room)) {
    EXPECT(move_all(store) > 0);
    EXPECT(store.take_changes().contains(""));
    room = store.begin(writer, request);
  }
  REQUIRE(std::holds_alternative<GrantedRoom>(*room));
  REQUIRE(store.commit(writer, std::get<GrantedRoom>(*room).object).ok());
}

std::variant<Range, Waiting> recalled(ObjectStore& store, const FoundObjects& found,
                                      std::size_t k) {
  const auto here = store.recall(reader, found.lease, found.objects[k].object);
  REQUIRE(here.ok());
  return *here;
}

TEST(what_does_not_fit_memory_goes_to_disk_and_comes_back) {
  ObjectStore store = spilling(2);
  for (int version = 1; version <= 6; ++version) put_spilling(store, put_of(version, 0, 256));
  EXPECT_EQ(store.memory_bytes_used(), 2 * 2048);
  EXPECT_EQ(store.spilled_bytes(), 4 * 2048);
  EXPECT_EQ(store.list()[0].versions.size(), 6U);
  const FoundObjects six = got(store, get_of(VersionChoice::latest, INT64_MAX, 0, 256));
  EXPECT(six.version == 6 && six.objects[0].range.segment == 0);
  const FoundObjects one = got(store, get_of(VersionChoice::exact, 1, 0, 256));
  EXPECT_EQ(one.objects[0].range.segment, -1);
  EXPECT(std::holds_alternative<Waiting>(recalled(store, one, 0)));
  EXPECT_EQ(move_all(store), 2);  // 5 left to make room, because 6 is being read
  EXPECT(store.take_changes().contains(""));
  const auto here = recalled(store, one, 0);
  REQUIRE(std::holds_alternative<Range>(here));
  EXPECT(std::get<Range>(here).offset != six.objects[0].range.offset);
  // An object under a lease is kept after its version was discarded, in memory or on disk.
  const FoundObjects two = got(store, get_of(VersionChoice::exact, 2, 0, 256));
  REQUIRE(store.discard("energy", 1).ok());
  REQUIRE(store.discard("energy", 2).ok());
  EXPECT(!store.get(reader, get_of(VersionChoice::exact, 2, 0, 256)).ok());
  REQUIRE(store.release(reader, one.lease).ok());
  EXPECT(std::holds_alternative<Waiting>(recalled(store, two, 0)));
  EXPECT_EQ(move_all(store), 1);
  EXPECT(std::holds_alternative<Range>(recalled(store, two, 0)));
  REQUIRE(store.release(reader, two.lease).ok());
  REQUIRE(store.release(reader, six.lease).ok());
  for (int version = 3; version <= 6; ++version) REQUIRE(store.discard("energy", version).ok());
  EXPECT_EQ(store.memory_bytes_used() + store.spilled_bytes() + store.disk_bytes_used(), 0);
  EXPECT(!store.busy());
}

TEST(one_lease_has_one_object_of_those_that_come_back) {
  ObjectStore store = spilling(2);
  for (int k = 0; k < 6; ++k) put_spilling(store, put_of(1, 256 * k, 256 * (k + 1)));
  // The version is larger than memory: its objects are read one after the other.
  const FoundObjects whole = got(store, get_of(VersionChoice::exact, 1, 0, 6 * 256));
  REQUIRE(whole.objects.size() == 6);
  const FoundObjects again = got(store, get_of(VersionChoice::exact, 1, 0, 6 * 256));
  for (const FoundObjects& found : {whole, again}) {
    REQUIRE(store.recall(reader, found.lease, 0).ok());
  }
  for (std::size_t k = 0; k < 6; ++k) {
    for (const FoundObjects& found : {whole, again}) {
      auto here = recalled(store, found, k);
      if (std::holds_alternative<Waiting>(here)) {
        (void)move_all(store);
        here = recalled(store, found, k);
      }
      EXPECT(std::holds_alternative<Range>(here));
    }
  }
  EXPECT(!store.recall(writer, whole.lease, whole.objects[0].object).ok());
  EXPECT(!store.recall(reader, whole.lease, 999).ok());
  EXPECT(!store.recall(reader, 999, 0).ok());
  store.gone(reader);
  EXPECT(!store.busy());
  REQUIRE(store.discard("energy", 1).ok());
  EXPECT_EQ(store.memory_bytes_used() + store.disk_bytes_used(), 0);
}

TEST(a_full_disk_lets_puts_wait_and_says_so) {
  ObjectStore store = spilling(2);
  put(store, put_of(1, 0, 256));
  put(store, put_of(2, 0, 256));
  EXPECT(std::holds_alternative<Waiting>(*store.begin(writer, put_of(3, 0, 256))));
  (void)store.take_changes();
  EXPECT_EQ(move_all(store, Error{ErrorCode::io, "no space left; free some"}), 1);
  EXPECT(store.take_changes().empty());
  const auto full = store.begin(writer, put_of(3, 0, 256));
  REQUIRE(full.ok() && std::holds_alternative<Waiting>(*full));
  EXPECT(says(std::get<Waiting>(*full).why, "cannot go to disk: no space left; free some"));
  EXPECT_EQ(move_all(store, Error{ErrorCode::io, "no space left; free some"}), 1);
  const FoundObjects still_here = got(store, get_of(VersionChoice::exact, 1, 0, 256));
  EXPECT_EQ(still_here.objects[0].range.segment, 0);
  store.gone(reader);
  REQUIRE(store.discard("energy", 1).ok());
  put(store, put_of(3, 0, 256));
  EXPECT_EQ(got(store, get_of(VersionChoice::exact, 2, 0, 256)).version, 2);
}

TEST(memory_in_pieces_leaves_an_object_to_other_servers_first) {
  ObjectStore store(options_of(8192));  // two segments
  put(store, put_of(1, 0, 512));
  put(store, put_of(2, 0, 512));
  REQUIRE(store.discard("energy", 1).ok());
  REQUIRE(store.discard("energy", 2).ok());
  const PutRequest large = put_of(3, 0, 1024);
  const auto first = store.begin(writer, large, {Effort::discard});
  REQUIRE(first.ok());
  EXPECT(std::holds_alternative<Waiting>(*first));
  const auto last = store.begin(writer, large, {Effort::all});
  REQUIRE(!last.ok());
  EXPECT(says(last.error().text(), "in pieces that are smaller"));
}

TEST(memory_in_free_pieces_is_put_together_where_pages_can_be_given_back) {
  ObjectStore::Options options = options_of(8192);
  std::vector<int> gone;
  options.give_back_pages = [&](const Range& segment) { gone.push_back(segment.segment); };
  ObjectStore store(options);
  put(store, put_of(1, 0, 512));
  put(store, put_of(2, 0, 512));
  REQUIRE(store.discard("energy", 1).ok());
  EXPECT(std::holds_alternative<Waiting>(*store.begin(writer, put_of(3, 0, 1024))));
  EXPECT(gone.empty());
  REQUIRE(store.discard("energy", 2).ok());
  put(store, put_of(3, 0, 1024));
  EXPECT(gone == std::vector<int>({0, 1}));
  EXPECT_EQ(got(store, get_of(VersionChoice::exact, 3, 0, 1024)).objects[0].range.segment, 2);
}

TEST(nothing_makes_room_on_an_overflow_server) {
  for (const Full full : {Full::block, Full::discard_oldest, Full::spill}) {
    ObjectStore::Options options = options_of(4096);
    options.full = full;
    ObjectStore store(options);
    const auto begin = [&](std::int64_t version, Effort effort) {
      const auto room = store.begin(writer, put_of(version, 0, 256), {effort});
      REQUIRE(room.ok());
      return std::holds_alternative<GrantedRoom>(*room);
    };
    put(store, put_of(1, 0, 256));
    EXPECT(begin(2, Effort::free_memory));  // there is free memory
    EXPECT(!begin(3, Effort::free_memory));
    EXPECT_EQ(begin(3, Effort::discard), full == Full::discard_oldest);
    EXPECT(store.take_moves().empty());
    EXPECT(!begin(4, Effort::all));
    EXPECT_EQ(store.take_moves().size(), full == Full::spill ? 1U : 0U);
  }
}

TEST(what_cannot_be_read_back_fails_its_get_alone) {
  ObjectStore store = spilling(1);
  for (int version = 1; version <= 3; ++version) put_spilling(store, put_of(version, 0, 256));
  const FoundObjects one = got(store, get_of(VersionChoice::exact, 1, 0, 256));
  EXPECT(std::holds_alternative<Waiting>(recalled(store, one, 0)));
  for (const Move& move : store.take_moves()) store.ended(move, {});  // object 3 moves out
  for (const Move& move : store.take_moves()) {
    EXPECT(move.kind == Move::Kind::in);
    store.ended(move, Error{ErrorCode::io, "the disk cannot be read"});
  }
  EXPECT(store.take_changes().contains(""));
  const auto failed = store.recall(reader, one.lease, one.objects[0].object);
  REQUIRE(!failed.ok());
  EXPECT(failed.error().code == ErrorCode::io && says(failed.error().text(), "cannot be read"));
  const FoundObjects two = got(store, get_of(VersionChoice::exact, 2, 0, 256));
  EXPECT(std::holds_alternative<Waiting>(recalled(store, two, 0)));
  EXPECT_EQ(move_all(store), 1);
  EXPECT(std::holds_alternative<Range>(recalled(store, two, 0)));
}

/// Random puts, gets, discards and ends, compared with a map from each cell to the last commit
/// there.
TEST(a_get_sees_the_last_commit_of_each_cell_or_waits) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    ObjectStore store(options_of(1 << 22));
    using Cell = std::array<std::int64_t, 2>;
    // the offset of the object committed last
    std::map<std::int64_t, std::map<Cell, std::int64_t>> expected;
    const auto number = [&](int below) {
      return static_cast<std::int64_t>(random() % static_cast<unsigned>(below));
    };
    for (int step = 0; step < 60; ++step) {
      const std::int64_t version = number(3);
      const std::int64_t x = number(8) - 4;
      const std::int64_t y = number(8);
      const Box box = *Box::make({x, y}, {x + 1 + number(5), y + 1 + number(5)});
      const auto each = [&](const Box& cells, const auto& visit) {
        for (std::int64_t i = cells.lower[0]; i < cells.upper[0]; ++i) {
          for (std::int64_t j = cells.lower[1]; j < cells.upper[1]; ++j) visit(Cell{i, j});
        }
      };
      if (number(3) > 0) {
        const auto result = store.begin(writer, {"energy", version, box, "f8", 8});
        REQUIRE(result.ok());
        const GrantedRoom begun = std::get<GrantedRoom>(*result);
        if (number(5) == 0) {
          REQUIRE(store.abort(writer, begun.object).ok());
          continue;
        }
        REQUIRE(store.commit(writer, begun.object).ok());
        each(box, [&](Cell cell) {
          expected[version][cell] = begun.range.segment * 100000000 + begun.range.offset;
        });
        continue;
      }
      const auto result = store.get(reader, {"energy", VersionChoice::exact, version, box});
      bool whole = true;
      each(box, [&](Cell cell) { whole = whole && expected[version].contains(cell); });
      REQUIRE(result.ok());
      REQUIRE(std::holds_alternative<FoundObjects>(*result) == whole);
      if (!whole) continue;
      const FoundObjects found = std::get<FoundObjects>(*result);
      std::int64_t cells = 0;
      std::vector<Part> parts;
      Box missing;
      EXPECT(find_parts(box, found.objects, parts, missing));
      for (const Part& part : parts) {
        const StoredObject& object = found.objects[part.object];
        EXPECT(intersection(part.box, object.box) == part.box);
        each(part.box, [&](Cell cell) {
          ++cells;
          EXPECT_EQ(expected[version].at(cell),
                    object.range.segment * 100000000 + object.range.offset);
        });
      }
      EXPECT_EQ(cells, box.points());
      REQUIRE(store.release(reader, found.lease).ok());
    }
  }
}

/// Returns the seconds of a put beside so many objects of one version, on a grid.
double put_seconds(int objects) {
  ObjectStore::Options options = options_of(std::int64_t{1} << 34);
  options.segment_bytes = std::int64_t{1} << 30;
  ObjectStore store(options);
  const int side = std::max(1, static_cast<int>(std::sqrt(objects)));
  const auto put_at = [&](int k) {
    const std::int64_t x = 10 * (k % side);
    const std::int64_t y = 10 * (k / side);
    put(store, {"energy", 1, *Box::make({x, y}, {x + 10, y + 10}), "f8", 8});
  };
  for (int k = 0; k < objects; ++k) put_at(k);
  constexpr int more = 2000;
  const auto begin = std::chrono::steady_clock::now();
  for (int k = objects; k < objects + more; ++k) put_at(k);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return seconds.count() / more;
}

TEST(a_put_costs_the_logarithm_of_the_objects) {
  for (const int objects : {10, 1000, 100000}) {
    std::printf("a put beside %6d objects: %.2f us\n", objects, 1e6 * put_seconds(objects));
  }
  // Ten thousand times as many objects may cost a few cache misses more, not ten thousand times as
  // much.
  const auto least = [](int objects) {
    double seconds = put_seconds(objects);
    for (int k = 0; k < 2; ++k) seconds = std::min(seconds, put_seconds(objects));
    return seconds;
  };
  EXPECT(least(100000) < 20 * least(10));
}

TEST(an_object_is_whole_only_after_its_pages_were_taken) {
  ObjectStore::Options options = options_of(4096);
  int pages = 0;
  options.take_pages = [&](const Range&) {
    return pages > 0 ? Status{} : Status(Error{ErrorCode::out_of_memory, "the machine is full"});
  };
  ObjectStore store(options);
  RoomRequest asking;
  asking.ready = false;
  const auto begun = store.begin(writer, put_of(1, 0, 4), asking);
  REQUIRE(begun.ok());
  const std::uint64_t object = std::get<GrantedRoom>(*begun).object;
  EXPECT(!store.commit(writer, object).ok());
  EXPECT(!store.take_pages(writer + 1, object).ok());  // the object of another client
  const auto refused = store.take_pages(writer, object);
  REQUIRE(!refused.ok());
  EXPECT(refused.error().code == ErrorCode::out_of_memory);
  EXPECT(says(refused.error().text(), "the machine is full; free some there"));
  pages = 1;
  REQUIRE(store.take_pages(writer, object).ok());
  REQUIRE(store.commit(writer, object).ok());
  EXPECT(!store.take_pages(writer, object).ok());  // the object is no longer being written
  EXPECT(store.memory_bytes_used() > 0);
}
