// Memory granted to one client goes to no other client while the first one may still touch it.
#include "staging/model/leases.hpp"

#include "staging/stores.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

GetRequest get_of(std::int64_t version) {
  return {"energy", VersionChoice::exact, version, *Box::make({0}, {256})};
}

/// Begins a put; returns the object's number, or 0 if there is no room.
std::uint64_t begun(ObjectStore& store, const PutRequest& request,
                    ClientConnection client = writer) {
  const auto result = store.begin(client, request);
  REQUIRE(result.ok());
  return std::holds_alternative<GrantedRoom>(*result) ? std::get<GrantedRoom>(*result).object : 0;
}

FoundObjects got(ObjectStore& store, std::int64_t version, ClientConnection client = reader) {
  const auto result = store.get(client, get_of(version));
  REQUIRE(result.ok() && std::holds_alternative<FoundObjects>(*result));
  return std::get<FoundObjects>(*result);
}

}  // namespace

TEST(what_an_owner_holds_is_listed_by_owner) {
  Leases leases;
  EXPECT(leases.holdings(1) == nullptr);
  leases.add_room(1, 10, 5);
  leases.add_room(1, 11, 6);
  leases.add_room(2, 12, 5);
  const std::uint64_t number = leases.add({1, 7, {20}, {}, 0});
  EXPECT(leases.find(1, number) != nullptr && leases.find(2, number) == nullptr);
  leases.remove_room(1, 10);
  leases.remove_room(1, 10);
  leases.remove_room(9, 10);
  EXPECT_EQ(leases.holdings(1)->rooms.size(), 1U);
  EXPECT(leases.busy());
  EXPECT_EQ(leases.fence(1).size(), 1U);
  EXPECT(leases.fence(1).empty());
  EXPECT(leases.find(1, number) == nullptr);  // a fenced lease is not found any more
  EXPECT(leases.busy());                      // the other owner still holds room
  leases.remove_room(2, 12);
  EXPECT(!leases.busy());
  EXPECT_EQ(leases.remove(number).objects.size(), 1U);
  EXPECT_EQ(leases.end(1).size(), 1U);
  EXPECT(leases.end(1).empty());
}

TEST(the_room_of_a_lost_writer_is_fenced_until_it_is_gone) {
  ObjectStore store(options_of(2048));
  const std::uint64_t object = begun(store, put_of(1));
  store.lost(writer);
  EXPECT(!store.busy());
  EXPECT_EQ(store.fenced_bytes(), 2048);
  EXPECT(!store.commit(writer, object).ok());
  EXPECT(!store.abort(writer, object).ok());  // a client cannot free memory that it may still write
  EXPECT(store.undo(writer, 0).empty());
  std::uint64_t lease = 0;
  const auto asked = store.lease(reader, "energy", 1, {&object, 1}, lease);
  // a reader that waits for it is told
  EXPECT(asked.ok() && (*asked)[0].state == LeasedObject::State::gone);
  const auto waits = store.begin(reader, put_of(2));
  REQUIRE(waits.ok() && std::holds_alternative<Waiting>(*waits));
  const std::string& why = std::get<Waiting>(*waits).why;
  EXPECT(why.find("2048 bytes of it may still be written by clients whose") != std::string::npos);
  (void)store.take_changes();
  store.lost(writer);
  EXPECT(store.take_changes().empty());
  store.gone(writer);
  EXPECT(store.take_changes().contains(""));  // clients that wait for memory are notified
  EXPECT_EQ(store.fenced_bytes(), 0);
  EXPECT_EQ(store.memory_bytes_used(), 0);
  EXPECT(begun(store, put_of(2), reader) != 0);
}

TEST(what_a_lost_reader_may_read_stays_until_it_is_gone) {
  for (const Full full : {Full::block, Full::discard_oldest, Full::spill}) {
    ObjectStore::Options options = options_of(2048);
    options.full = full;
    ObjectStore store(options);
    REQUIRE(store.commit(writer, begun(store, put_of(1))).ok());
    const FoundObjects found = got(store, 1);
    store.lost(reader);
    EXPECT(!store.busy());
    EXPECT(!store.release(reader, found.lease).ok());
    EXPECT(!store.recall(reader, found.lease, 0).ok());
    EXPECT_EQ(begun(store, put_of(2)), 0U);
    EXPECT(store.take_moves().empty());  // a fenced object does not move to disk
    REQUIRE(store.discard("energy", 1).ok());
    EXPECT_EQ(begun(store, put_of(2)), 0U);
    store.gone(reader);
    EXPECT(begun(store, put_of(2)) != 0);
  }
}

TEST(of_a_lost_readers_lease_only_what_lies_in_memory_is_fenced) {
  ObjectStore::Options options = options_of(2048);
  options.full = Full::spill;
  ObjectStore store(options);
  REQUIRE(store.commit(writer, begun(store, put_of(1))).ok());
  EXPECT_EQ(begun(store, put_of(2)), 0U);
  for (const Move& move : store.take_moves()) store.ended(move, {});
  REQUIRE(store.commit(writer, begun(store, put_of(2))).ok());
  const FoundObjects found = got(store, 1);  // the object is on disk
  const auto recalled = store.recall(reader, found.lease, found.objects[0].object);
  REQUIRE(recalled.ok() && std::holds_alternative<Waiting>(*recalled));
  store.lost(reader);
  for (int round = 0; round < 4; ++round) {
    for (const Move& move : store.take_moves()) store.ended(move, {});
  }
  REQUIRE(store.discard("energy", 2).ok());
  REQUIRE(store.discard("energy", 1).ok());
  EXPECT_EQ(store.memory_bytes_used(), 0);
  EXPECT_EQ(store.spilled_bytes(), 0);
  store.gone(reader);
}

TEST(a_put_that_never_ends_evicts_no_version) {
  ObjectStore::Options options = options_of(1 << 20);
  options.versions_max = 2;
  for (const bool explicitly : {false, true}) {
    ObjectStore store(options);
    for (int version = 1; version <= 2; ++version) {
      REQUIRE(store.commit(writer, begun(store, put_of(version))).ok());
    }
    REQUIRE(store.index(7, put_of(5), {{1, 3}}).ok());
    EXPECT_EQ(got(store, 1).version, 1);
    // The entry's put is waited for like a put on this server, and no longer.
    if (explicitly) {
      store.unindex(8, "energy", 5, {1, 3});  // the entry is another client's
      EXPECT(std::holds_alternative<NeedsOtherServers>(*store.get(reader, get_of(5))));
      store.unindex(7, "energy", 5, {1, 3});
      EXPECT(!std::holds_alternative<NeedsOtherServers>(*store.get(reader, get_of(5))));
    } else {
      store.gone(7);
      EXPECT(std::holds_alternative<NeedsOtherServers>(
          *store.get(reader, get_of(5))));  // the entry's primary may have the object
      // any client that has asked the primary may unindex the entry
      store.unindex(8, "energy", 5, {1, 3});
      EXPECT(!std::holds_alternative<NeedsOtherServers>(*store.get(reader, get_of(5))));
    }
    EXPECT_EQ(got(store, 1).version, 1);
    REQUIRE(store.commit(writer, begun(store, put_of(3))).ok());
    EXPECT(!store.get(reader, get_of(1)).ok());
    EXPECT_EQ(got(store, 2).version, 2);
    EXPECT_EQ(got(store, 3).version, 3);
  }
}

TEST(a_version_that_waits_for_a_dead_writer_no_more_makes_room_for_later_ones) {
  ObjectStore::Options options = options_of(1 << 20);
  options.versions_max = 2;
  ObjectStore store(options);
  REQUIRE(store.index(7, put_of(0), {{1, 9}}).ok());
  const std::uint64_t slow = begun(store, put_of(1), 8);
  for (int version = 2; version <= 5; ++version) {
    REQUIRE(store.commit(writer, begun(store, put_of(version))).ok());
  }
  EXPECT_EQ(got(store, 2).version, 2);  // versions 0 and 1 are still being put
  store.lost(7);
  EXPECT_EQ(got(store, 2).version, 2);
  store.lost(8);
  EXPECT(!store.get(reader, get_of(2)).ok());
  EXPECT_EQ(got(store, 4).version, 4);
  EXPECT(!store.commit(8, slow).ok());
  // version 0 was discarded with all versions older than those kept
  EXPECT(!store.get(reader, get_of(0)).ok());
}
