// What a client of a server cannot do to other clients, and what it cannot send.
#include <vector>

#include "staging/protocol/messages.hpp"
#include "staging/server/object_store.hpp"
#include "staging/server/service.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

constexpr ClientConnection mine = 1;
constexpr ClientConnection theirs = 2;

PutRequest put_of(std::int64_t version) {
  return {"v", version, *Box::make({0}, {16}), "i8", 8, {}};
}

}  // namespace

TEST(an_object_is_its_owners_until_it_is_committed_and_so_is_a_lease) {
  ObjectStore::Options options;
  options.memory_bytes = 1 << 16;
  options.segment_bytes = 4096;
  options.make_segment = [](std::int64_t) { return Status{}; };
  ObjectStore store(options);
  const auto begun = store.begin(mine, put_of(1));
  REQUIRE(begun.ok() && std::holds_alternative<GrantedRoom>(*begun));
  const std::uint64_t object = std::get<GrantedRoom>(*begun).object;
  EXPECT(!store.commit(theirs, object).ok());
  EXPECT(!store.abort(theirs, object).ok());
  REQUIRE(store.commit(mine, object).ok());
  EXPECT(!store.commit(mine, object).ok());
  const auto got = store.get(mine, {"v", VersionChoice::exact, 1, put_of(1).box, {}});
  REQUIRE(got.ok() && std::holds_alternative<FoundObjects>(*got));
  const std::uint64_t lease = std::get<FoundObjects>(*got).lease;
  EXPECT(!store.release(theirs, lease).ok());
  EXPECT(store.release(mine, lease).ok());
}

TEST(a_client_that_has_closed_has_ended_while_its_process_reads) {
  Service::Options options;
  options.store.memory_bytes = 4096;
  options.store.segment_bytes = 4096;
  options.store.make_segment = [](std::int64_t) { return Status{}; };
  options.contact = "here";
  options.message_bytes = 16384;
  options.notify = [](ClientConnection) {};
  options.move = [](const Move&) {};
  Service service(options);
  std::vector<std::byte> room(16384);
  const auto ask = [&]<typename Request>(ClientConnection from, const Request& request) {
    const auto length = service.answer(from, message_of(request).bytes(), room);
    REQUIRE(length.ok());
    typename Request::Reply reply;
    REQUIRE(read_reply(std::span<const std::byte>(room).first(*length), reply).ok());
    return reply;
  };
  (void)ask(mine, protocol::Hello{staging_version, "x", {1, 1}});
  (void)ask(theirs, protocol::Hello{staging_version, "y", {2, 2}});
  (void)ask(mine, protocol::Declare{put_of(1), false});
  protocol::Begin begin;
  begin.object = put_of(1);
  const auto room_granted = std::get<protocol::RoomGranted>(ask(mine, begin));
  protocol::Commit commit;
  commit.object = room_granted.object;
  commit.variable = "v";
  commit.version = 1;
  (void)ask(mine, commit);
  (void)ask(mine, protocol::Find{{"v", VersionChoice::exact, 1, put_of(1).box, {}}, false});
  EXPECT_EQ(service.list()[0].producers, 1);
  service.closed(mine);
  EXPECT_EQ(service.list()[0].producers, 0);
  EXPECT_EQ(service.clients(), 1);
  (void)ask(theirs, protocol::Discard{"v", 1});
  EXPECT(service.memory_bytes_used() > 0);
  const auto late = ask(theirs, protocol::Get{{"v", VersionChoice::exact, 2, put_of(2).box, {}}});
  EXPECT(std::get<protocol::Wait>(late).ending == Ending::closed);
  service.gone(mine, false);  // its process was killed
  EXPECT_EQ(service.memory_bytes_used(), 0);
  const auto later = ask(theirs, protocol::Get{{"v", VersionChoice::exact, 2, put_of(2).box, {}}});
  EXPECT(std::get<protocol::Wait>(later).ending == Ending::closed);
}

TEST(data_of_another_length_than_their_box_are_refused) {
  std::vector<std::vector<std::byte>> segments;
  Service::Options options;
  options.store.memory_bytes = 1 << 16;
  options.store.segment_bytes = 1 << 16;
  options.store.make_segment = [&](std::int64_t bytes) {
    segments.emplace_back(static_cast<std::size_t>(bytes));
    return Status{};
  };
  options.contact = "here";
  options.message_bytes = 16384;
  options.address_of = [&](const Range& range) { return segments[0].data() + range.offset; };
  options.notify = [](ClientConnection) {};
  options.move = [](const Move&) {};
  Service service(options);
  std::vector<std::byte> reply(16384);
  const protocol::Hello hello{staging_version, "x", {}};
  REQUIRE(service.answer(mine, message_of(hello).bytes(), reply).ok());
  for (const std::size_t length : {std::size_t{127}, std::size_t{129}, std::size_t{4000}}) {
    const auto fill = [](std::span<std::byte>) { return Status{}; };
    const protocol::Put put{put_of(1), {{}, length, fill}, {}};
    EXPECT(!service.answer(mine, message_of(put).bytes(), reply).ok());
  }
}

TEST(more_orphans_than_a_message_brings_are_refused) {
  for (const std::uint32_t count : {orphans_max, orphans_max + 1}) {
    const protocol::DropOrphans drop{0, std::vector<Orphan>(count)};
    protocol::DropOrphans read;
    EXPECT_EQ(read_body(std::span(message_of(drop).bytes()).subspan(4), read).ok(),
              count == orphans_max);
  }
}
