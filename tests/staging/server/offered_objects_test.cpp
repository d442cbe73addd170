// Objects that stay in their producers' memory: who finds them, when they end, and what is lost.
#include <string>

#include "staging/stores.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

const OfferedMemory here{"unix:@here", "staging/offer/1", "the simulation"};
constexpr std::uint64_t some_step = 7;

GetRequest whole_of(std::int64_t version, VersionChoice choice = VersionChoice::exact) {
  return {"energy", choice, version, *Box::make({0}, {256}), {}};
}

std::uint64_t offer(ObjectStore& store, const PutRequest& request,
                    ClientConnection client = writer) {
  const auto begun = store.begin_offer(client, request, here);
  REQUIRE(begun.ok());
  REQUIRE(store.commit(client, *begun, 0, {1, 5}).ok());
  return *begun;
}

/// Returns what a get finds, which stays leased.
FoundObjects found(ObjectStore& store, const GetRequest& request) {
  const auto result = store.get(reader, request);
  REQUIRE(result.ok() && std::holds_alternative<FoundObjects>(*result));
  return std::get<FoundObjects>(*result);
}

bool waits(ObjectStore& store, const GetRequest& request) {
  const auto result = store.get(reader, request);
  return result.ok() && std::holds_alternative<Waiting>(*result);
}

bool is_told(ObjectStore& store, std::uint64_t object) {
  return store.take_changes().contains(ObjectStore::offer_watch(object));
}

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string name_of(ClientConnection client) { return "client " + std::to_string(client); }

}  // namespace

TEST(an_offer_is_found_from_its_commit_on_and_takes_no_memory) {
  ObjectStore store(options_of(4096));
  const auto begun = store.begin_offer(writer, put_of(1), here);
  REQUIRE(begun.ok());
  EXPECT(waits(store, whole_of(1)));
  EXPECT(store.has_offer(writer, *begun) && !store.has_offer(reader, *begun));
  EXPECT(store.take_pages(writer, *begun).ok());
  REQUIRE(store.commit(writer, *begun, 0, {1, 5}).ok());
  const FoundObjects seen = found(store, whole_of(1));
  REQUIRE(seen.objects.size() == 1);
  EXPECT_EQ(seen.objects[0].range.segment, offered_segment);
  EXPECT(seen.objects[0].checksum.crc == 5);
  const auto where = store.find_offer(reader, seen.lease, seen.objects[0].object);
  REQUIRE(where.ok());
  EXPECT(where->contact == here.contact && where->name == here.name &&
         where->producer == here.producer);
  EXPECT(!store.find_offer(writer, seen.lease, *begun).ok());  // another client's lease
  EXPECT(!store.find_offer(reader, seen.lease, *begun + 1).ok());
  EXPECT(!store.recall(reader, seen.lease, *begun).ok());
  EXPECT_EQ(store.memory_bytes_used(), 0);
  EXPECT_EQ(store.info("energy")->versions[0].bytes, 2048);
}

TEST(an_offer_larger_than_the_memory_is_taken) {
  ObjectStore store(options_of(4096));
  offer(store, put_of(1, 0, 1 << 20));
  EXPECT(!waits(store, whole_of(1)));
}

TEST(an_object_in_memory_is_no_offer) {
  ObjectStore store(options_of(4096));
  const auto room = store.begin(writer, put_of(1));
  REQUIRE(room.ok());
  const std::uint64_t object = std::get<GrantedRoom>(*room).object;
  REQUIRE(store.commit(writer, object).ok());
  EXPECT(!store.has_offer(writer, object));
  store.withdraw_offer(writer, object);
  const FoundObjects seen = found(store, whole_of(1));
  EXPECT(!store.find_offer(reader, seen.lease, object).ok());
}

TEST(a_withdrawn_offer_ends_when_it_is_read_no_more) {
  ObjectStore store(options_of(4096));
  const std::uint64_t object = offer(store, put_of(1));
  const FoundObjects seen = found(store, whole_of(1));
  EXPECT(mentions(store.why_offered(object, name_of), "is being read by \"client 2\""));
  store.withdraw_offer(reader, object);  // not his
  EXPECT(!waits(store, whole_of(1)));
  (void)store.take_changes();
  store.withdraw_offer(writer, object);
  EXPECT(waits(store, whole_of(1)));
  EXPECT(store.has_offer(writer, object));
  EXPECT(store.find_offer(reader, seen.lease, object).ok());  // what is read stays
  EXPECT(!is_told(store, object));
  store.withdraw_offer(writer, object);  // again
  store.gone(reader);
  EXPECT(!store.has_offer(writer, object));
  EXPECT(is_told(store, object));
  // The version is as if it had never been offered.
  offer(store, put_of(1));
  EXPECT(!waits(store, whole_of(1)));
}

TEST(a_withdrawn_offer_leaves_nothing_behind) {
  ObjectStore::Options options = options_of(4096);
  options.versions_max = 2;
  ObjectStore store(options);
  for (int version = 1; version <= 9; ++version) {
    store.withdraw_offer(writer, offer(store, put_of(version)));
  }
  const std::uint64_t kept = offer(store, put_of(4));  // no limit has passed it by
  EXPECT(store.has_offer(writer, kept));
  EXPECT_EQ(store.info("energy")->versions.size(), 1U);
  EXPECT_EQ(found(store, whole_of(0, VersionChoice::next)).version, 4);
}

TEST(an_offer_whose_commit_is_in_doubt_is_withdrawn) {
  ObjectStore store(options_of(4096));
  const auto begun = store.begin_offer(writer, put_of(1), here);
  REQUIRE(begun.ok());
  store.withdraw_offer(writer, *begun);
  EXPECT(!store.has_offer(writer, *begun));
  EXPECT(!store.commit(writer, *begun).ok());
  const auto undone = store.begin_offer(writer, put_of(2), here, 9);
  REQUIRE(undone.ok());
  (void)store.undo(writer, 9);
  EXPECT(!store.has_offer(writer, *undone));
  EXPECT(!store.busy());
}

TEST(an_offer_ends_with_its_version_or_when_it_is_hidden) {
  ObjectStore::Options options = options_of(4096);
  options.versions_max = 2;
  ObjectStore store(options);
  const std::uint64_t limited = offer(store, put_of(1));
  const std::uint64_t discarded = offer(store, put_of(2));
  const FoundObjects seen = found(store, whole_of(2));
  (void)store.take_changes();
  const std::uint64_t hidden = offer(store, put_of(3));
  EXPECT(!store.has_offer(writer, limited) && is_told(store, limited));
  REQUIRE(store.discard("energy", 2).ok());
  EXPECT(store.has_offer(writer, discarded));
  REQUIRE(store.release(reader, seen.lease).ok());
  EXPECT(!store.has_offer(writer, discarded) && is_told(store, discarded));
  const std::uint64_t later = offer(store, put_of(3));
  EXPECT(!store.has_offer(writer, hidden) && is_told(store, hidden));
  REQUIRE(store.remove("energy", 1));
  EXPECT(!store.has_offer(writer, later) && is_told(store, later));
}

TEST(what_a_lost_client_has_offered_is_lost) {
  ObjectStore store(options_of(4096));
  const std::uint64_t object = offer(store, put_of(1));
  const auto begun = store.begin_offer(writer, put_of(2), here);
  REQUIRE(begun.ok());
  const FoundObjects before = found(store, whole_of(1));
  (void)store.take_changes();
  store.lost(writer);
  EXPECT(store.take_changes().contains("energy"));
  EXPECT_EQ(store.fenced_bytes(), 0);
  EXPECT(waits(store, whole_of(2)));
  const FoundObjects seen = found(store, whole_of(1));  // it is not waited for
  for (const auto& one : {before, seen}) {
    const auto where = store.find_offer(reader, one.lease, object);
    REQUIRE(!where.ok());
    EXPECT(where.error().code == ErrorCode::peer_lost);
    EXPECT(mentions(where.error().message, "it lay in the memory of \"the simulation\""));
    EXPECT(mentions(where.error().message, "version 1 of \"energy\", (0:256)"));
  }
  store.gone(writer);
  store.gone(reader);
  EXPECT_EQ(store.fenced_bytes(), 0);
  const auto room = store.begin(3, put_of(1));  // put again, it is there
  REQUIRE(room.ok());
  REQUIRE(store.commit(3, std::get<GrantedRoom>(*room).object).ok());
  EXPECT(found(store, whole_of(1)).objects[0].range.segment >= 0);
}

TEST(an_offer_within_a_step_is_withheld_with_it) {
  for (const bool whole : {true, false}) {
    ObjectStore store(options_of(4096));
    PutRequest request = put_of(1);
    request.step = some_step;
    const std::uint64_t object = offer(store, request);
    EXPECT(waits(store, whole_of(1)));
    EXPECT(store.has_offer(writer, object));
    store.end_step(some_step, whole ? StepState::whole : StepState::broken);
    EXPECT(waits(store, whole_of(1)) != whole);
    EXPECT(store.has_offer(writer, object) == whole);
    EXPECT(is_told(store, object) != whole);
  }
  ObjectStore store(options_of(4096));
  PutRequest request = put_of(1);
  request.step = some_step;
  const std::uint64_t object = offer(store, request);
  store.withdraw_offer(writer, object);
  EXPECT(!store.has_offer(writer, object));
  store.end_step(some_step, StepState::whole);
  EXPECT(waits(store, whole_of(1)));
}

TEST(no_offer_goes_to_make_room) {
  ObjectStore::Options options = options_of(4096);
  options.full = Full::discard_oldest;
  ObjectStore store(options);
  const std::uint64_t object = offer(store, put_of(1));
  for (int version = 2; version <= 6; ++version) {
    const auto room = store.begin(writer, put_of(version));
    REQUIRE(room.ok() && std::holds_alternative<GrantedRoom>(*room));
    REQUIRE(store.commit(writer, std::get<GrantedRoom>(*room).object).ok());
  }
  EXPECT(store.has_offer(writer, object));
}

TEST(no_offer_goes_to_disk) {
  ObjectStore::Options options = options_of(4096);
  options.full = Full::spill;
  ObjectStore store(options);
  const std::uint64_t object = offer(store, put_of(1));
  for (int version = 2; version <= 6; ++version) {
    auto room = store.begin(writer, put_of(version));
    while (room.ok() && std::holds_alternative<Waiting>(*room)) {
      const auto moves = store.take_moves();
      REQUIRE(!moves.empty());
      for (const Move& move : moves) {
        EXPECT(move.object != object);
        store.ended(move, {});
      }
      room = store.begin(writer, put_of(version));
    }
    REQUIRE(room.ok());
    REQUIRE(store.commit(writer, std::get<GrantedRoom>(*room).object).ok());
  }
  EXPECT_EQ(found(store, whole_of(1)).objects[0].range.segment, offered_segment);
}

TEST(the_index_entry_of_a_withdrawn_offer_goes) {
  ObjectStore::Options options = options_of(4096);
  options.server = 1;
  options.servers = 2;
  ObjectStore store(options);
  const ObjectId id{0, 9};
  REQUIRE(store.index(writer, put_of(1), {id, false}).ok());
  store.confirm(writer, "energy", 1, id, 5);
  store.withdraw_entry(reader, "energy", 1, id);  // not his
  EXPECT(std::holds_alternative<FoundObjects>(*store.find(reader, whole_of(1))));
  store.withdraw_entry(writer, "energy", 1, id);
  EXPECT(std::holds_alternative<Waiting>(*store.find(reader, whole_of(1))));
  REQUIRE(store.index(writer, put_of(1), {id, false}).ok());  // before its confirmation, too
  store.withdraw_entry(writer, "energy", 1, id);
  EXPECT(std::holds_alternative<Waiting>(*store.find(reader, whole_of(1))));
  store.withdraw_entry(writer, "other", 1, id);
}
