// Clients, their connections and their ends, as a server sees them.
#include "staging/server/service.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <utility>

#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

constexpr ClientId one{7, 7};

struct Fixture {
  std::vector<std::vector<std::byte>> segments;
  std::int64_t now_ns = 0;
  std::optional<Service> service{std::in_place, options()};
  std::vector<std::byte> reply = std::vector<std::byte>(16384);

  Service::Options options() {
    Service::Options made;
    made.store.memory_bytes = 1 << 20;
    made.store.segment_bytes = 1 << 16;
    made.store.limits.lease_s = 10;
    made.store.now_ns = [this] { return now_ns; };
    made.store.make_segment = [this](std::int64_t bytes) {
      segments.emplace_back(static_cast<std::size_t>(bytes));
      return Status{};
    };
    made.contact = "here";
    made.message_bytes = 16384;
    made.address_of = [this](const Range& range) {
      return segments[static_cast<std::size_t>(range.segment)].data() + range.offset;
    };
    made.notify = [](ClientConnection) {};
    made.move = [](const Move&) {};
    return made;
  }
  template <typename Request>
  Result<std::size_t> ask(ClientConnection from, const Request& request) {
    return service->answer(from, message_of(request).bytes(), reply);
  }
  bool hello(ClientConnection from, const ClientId& id) {
    return ask(from, protocol::Hello{staging_version, "x", id}).ok();
  }
  bool declare(ClientConnection from) {
    return ask(from, protocol::Declare{{"x", 1, *Box::make({0}, {4}), "f8", 8, {}}}).ok();
  }
  VariableMetadata metadata() {
    const auto length = ask(9, protocol::Describe{"x", false});
    REQUIRE(length.ok());
    protocol::Describe::Reply said;
    REQUIRE(read_reply({reply.data(), *length}, said).ok());
    return std::get<protocol::Described>(said).metadata;
  }
};

}  // namespace

TEST(a_client_that_comes_back_is_neither_dead_nor_another) {
  Fixture server;
  REQUIRE(server.hello(9, {}));
  REQUIRE(server.hello(1, one) && server.declare(1));
  server.service->lost(1);
  EXPECT(server.metadata().ended() && server.metadata().lost_producer());
  EXPECT(!server.hello(1, one));  // that connection was lost
  EXPECT(!server.declare(1));
  REQUIRE(server.hello(2, one));
  EXPECT(server.metadata().producers == 1 && !server.metadata().lost_producer());
  REQUIRE(server.declare(2));
  EXPECT_EQ(server.metadata().came, 1);
  server.service->gone(1, false);  // the old connection can no longer touch memory
  EXPECT(server.metadata().producers == 1 && !server.metadata().lost_producer());
  REQUIRE(server.hello(3, one));  // a client may have two connections at a time
  server.service->gone(2, true);
  EXPECT(server.metadata().producers == 1);
  server.service->gone(3, true);
  EXPECT(server.metadata().ended() && !server.metadata().lost_producer());
  EXPECT_EQ(server.service->clients(), 1);
}

TEST(a_client_cannot_pass_for_another_connection_of_its_own) {
  Fixture server;
  REQUIRE(server.hello(9, {}));
  REQUIRE(server.hello(1, one) && server.declare(1));
  REQUIRE(server.hello(1, {8, 8}));  // a client that has an identity keeps it
  server.service->gone(1, false);
  EXPECT(server.metadata().ended() && server.metadata().lost_producer());
}

TEST(a_client_that_reads_for_too_long_gets_nothing_new) {
  Fixture server;
  REQUIRE(server.hello(1, one) && server.declare(1));
  const auto fill = [](std::span<std::byte>) { return Status{}; };
  const PutRequest object{"x", 1, *Box::make({0}, {4}), "f8", 8, {1, 1}};
  REQUIRE(server.ask(1, protocol::Put{object, {{}, 32, fill}, {}}).ok());
  const auto find = [&](RequestId request_id) {
    const GetRequest get{"x", VersionChoice::exact, 1, *Box::make({0}, {4}), {}};
    return server.ask(1, protocol::Find{get, false, request_id});
  };
  REQUIRE(find(5).ok());
  server.now_ns = 9'000'000'000;
  REQUIRE(find(6).ok());
  server.now_ns = 10'000'000'000;
  const auto refused = find(7);
  EXPECT(!refused.ok() && refused.error().text().find("staging_lease_s") != std::string::npos);
  REQUIRE(server.ask(1, protocol::Undo{5}).ok());  // the oldest lease ends
  EXPECT(find(7).ok());
}

TEST(others_are_answered_while_elements_are_copied) {
  Fixture server;
  std::function<void()> meanwhile;
  bool copying = false;
  Service::Options options = server.options();
  options.copy_beside = [&](const std::function<void()>& copy) {
    if (meanwhile) std::exchange(meanwhile, {})();
    copying = true;
    copy();
    copying = false;
  };
  // Other requests may add a segment while elements are copied.
  options.address_of = [&, address_of = options.address_of](const Range& range) {
    EXPECT(!copying);
    return address_of(range);
  };
  server.service.emplace(std::move(options));
  REQUIRE(server.hello(1, one) && server.declare(1) && server.hello(9, {}));
  const std::vector<double> values{1, 2, 3, 4};
  const auto bytes = std::as_bytes(std::span(values));
  const PutRequest object{"x", 1, *Box::make({0}, {4}), "f8", 8, {1, 1}};
  const auto put_of = [](const PutRequest& request, std::span<const std::byte> elements) {
    const auto fill = [elements](std::span<std::byte> room) {
      std::ranges::copy(elements, room.begin());
      return Status{};
    };
    return protocol::Put{request, {{}, elements.size(), fill}, {}};
  };
  const GetRequest get{"x", VersionChoice::exact, 1, *Box::make({0}, {4}), {}};
  const auto kind_of_get = [&](ClientConnection from) {
    REQUIRE(server.ask(from, protocol::Get{get, 0}).ok());
    ReplyKind kind{};
    std::memcpy(&kind, server.reply.data(), sizeof kind);
    return kind;
  };
  // An object that is being written is invisible, and a discard of its version meanwhile prevails.
  meanwhile = [&] { EXPECT(kind_of_get(9) == ReplyKind::waiting); };
  REQUIRE(server.ask(1, put_of(object, bytes)).ok());
  EXPECT(kind_of_get(9) == ReplyKind::data);
  // An object that is being read stays where it is until it has been copied.
  const std::vector<double> others(4, 9.0);
  const auto other_bytes = std::as_bytes(std::span(others));
  std::vector<std::byte> reply(16384);
  meanwhile = [&] {
    const auto discard = message_of(protocol::Discard{"x", 1});
    REQUIRE(server.service->answer(1, discard.bytes(), reply).ok());
    PutRequest next = object;
    next.version = 2;
    const auto put = message_of(put_of(next, other_bytes));
    REQUIRE(server.service->answer(1, put.bytes(), reply).ok());
  };
  const auto length = server.ask(9, protocol::Get{get, 0});
  REQUIRE(length.ok());
  protocol::Get::Reply said;
  REQUIRE(read_reply({server.reply.data(), *length}, said).ok());
  const auto& data = std::get<protocol::InlineData>(said);
  EXPECT(std::ranges::equal(data.data.bytes, bytes));
  // A version that is discarded during a put keeps no object of it.
  PutRequest late = object;
  late.version = 3;
  meanwhile = [&] { REQUIRE(server.ask(1, protocol::Discard{"x", 3}).ok()); };
  EXPECT(!server.ask(1, put_of(late, bytes)).ok());
}

TEST(a_version_of_a_deleted_variable_is_not_remembered_as_discarded) {
  Fixture server;
  REQUIRE(server.hello(1, one));
  REQUIRE(server.hello(9, {8, 8}));
  const auto discard = [&](const Incarnation& incarnation) {
    const PutRequest object{"x", 1, *Box::make({0}, {4}), "f8", 8, incarnation};
    const auto length = server.ask(1, protocol::DiscardToo{object});
    REQUIRE(length.ok());
    protocol::DiscardToo::Reply said;
    REQUIRE(read_reply({server.reply.data(), *length}, said).ok());
    return std::holds_alternative<protocol::DoneWithOrphans>(said);
  };
  const auto begin = [&] {
    const PutRequest put{"x", 1, *Box::make({0}, {4}), "f8", 8, server.metadata().incarnation};
    return server.ask(1, protocol::Begin{put, Effort::all, true, {}, 0}).ok();
  };
  REQUIRE(server.declare(1));
  const Incarnation first = server.metadata().incarnation;
  EXPECT(discard(first) && !begin());
  REQUIRE(server.ask(1, protocol::Remove{"x", 0}).ok());
  EXPECT(!discard(first));
  REQUIRE(server.declare(1));
  EXPECT(!discard(first) && begin());
}

TEST(only_what_a_lease_keeps_in_memory_is_reduced) {
  Fixture server;
  REQUIRE(server.hello(1, one) && server.hello(2, {8, 8}) && server.declare(1));
  const Box box = *Box::make({0}, {64});
  const auto fill = [](std::span<std::byte> room) {
    std::array<double, 64> numbers{1, 2, 3, 6};
    std::memcpy(room.data(), numbers.data(), room.size());
    return Status{};
  };
  REQUIRE(server.ask(1, protocol::Put{{"x", 1, box, "f8", 8, {1, 1}}, {{}, 512, fill}, {}}).ok());
  const GetRequest get{"x", VersionChoice::exact, 1, box, {}};
  const auto length = server.ask(1, protocol::Find{get, false, 5});
  REQUIRE(length.ok());
  protocol::Find::Reply said;
  REQUIRE(read_reply({server.reply.data(), *length}, said).ok());
  const auto& found = std::get<protocol::Objects>(said).found;
  const protocol::Reduce asked{
      found.lease, found.objects[0].object, *Box::make({1}, {4}), "f8", {}};
  const auto answer = server.ask(1, asked);
  REQUIRE(answer.ok());
  protocol::ReducedPart part;
  REQUIRE(read_reply({server.reply.data(), *answer}, part).ok());
  EXPECT(part.result.count == 3 && part.result.sum == 11);
  const auto refused = [&](ClientConnection from, const auto& change) {
    protocol::Reduce other = asked;
    change(other);
    EXPECT(!server.ask(from, other).ok());
  };
  refused(2, [](auto&) {});  // another client's lease
  refused(1, [](auto& other) { ++other.lease; });
  refused(1, [](auto& other) { ++other.object; });
  refused(1, [](auto& other) { other.type = "c16"; });  // longer than the object
  refused(1, [](auto& other) { other.type = "three words"; });
  refused(1, [](auto& other) { other.part = *Box::make({1}, {65}); });
  refused(1, [](auto& other) { other.part = *Box::make({0, 0}, {1, 1}); });
  refused(1, [](auto& other) { other.reduction.kind = ReductionKind::histogram; });
  REQUIRE(server.ask(1, protocol::Release{found.lease, "x", true, 512, "memcpy"}).ok());
  refused(1, [](auto&) {});
}

TEST(requests_of_a_batch_are_answered_one_by_one) {
  Fixture server;
  REQUIRE(server.hello(1, one) && server.declare(1));
  const auto describe = message_of(protocol::Describe{"x", false});
  const auto wrong = message_of(protocol::Commit{99, 0, "x", 32, "memcpy", {}});
  const auto greeting = message_of(protocol::Hello{staging_version, "x", one});
  const auto joining = message_of(protocol::Join{staging_version, 1, 2, "there"});
  const auto nested = message_of(protocol::Batch{{payload_of(describe.bytes())}});
  const std::vector<std::byte> odd(3);
  REQUIRE(batch_most(16384) == 4);
  const auto asked = [&](const protocol::Batch& batch) {
    const auto length = server.ask(1, batch);
    REQUIRE(length.ok());
    protocol::BatchReplies said;
    REQUIRE(read_reply({server.reply.data(), *length}, said).ok());
    return said;
  };
  const auto first = asked({{payload_of(describe.bytes()), payload_of(wrong.bytes()),
                             payload_of(greeting.bytes()), payload_of(describe.bytes())}});
  REQUIRE(first.replies.size() == 4);
  EXPECT(!first.replies[0].error && !first.replies[3].error);
  EXPECT(first.replies[1].error && first.replies[2].error);
  EXPECT(first.replies[0].reply.bytes.size() == first.replies[3].reply.bytes.size());
  const auto second =
      asked({{payload_of(joining.bytes()), payload_of(nested.bytes()), payload_of(odd)}});
  REQUIRE(second.replies.size() == 3);
  for (const auto& refused : second.replies) {
    REQUIRE(refused.error);
    EXPECT(refused.error->code == ErrorCode::invalid_argument);
  }
  protocol::Batch many;
  for (int k = 0; k < 5; ++k) many.requests.push_back(payload_of(describe.bytes()));
  EXPECT(!server.ask(1, many).ok());
  EXPECT(asked({}).replies.empty());
}
