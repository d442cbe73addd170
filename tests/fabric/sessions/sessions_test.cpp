// Sessions and their closing, over a wire that only records, without a thread, on virtual time.
#include "fabric/sessions/sessions.hpp"

#include <set>

#include "fabric/idle_wire.hpp"
#include "fabric/sessions/closing.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::fabric;
using namespace std::chrono_literals;

namespace {

/// A wire that has one connection to another machine for each number, and delivers nothing.
struct QuietWire final : test::IdleWire {
  std::vector<MessageType> sent;
  std::set<ConnectionId> closed;
  bool orderly = true;

  void send(ConnectionId, const WireMessage& message) override {
    sent.push_back(message.header.type);
  }
  bool in_order(ConnectionId) const override { return orderly; }
  WirePeer peer(ConnectionId) const override { return {false, 0, -1, "there:1"}; }
  void close(ConnectionId connection) override { closed.insert(connection); }
};

FabricOptions small_options() {
  FabricOptions options;
  options.peers_max = 1;
  return options;
}

struct World {
  World() {
    parts.wire = wire;
    parts.service_threads = std::make_unique<ServiceThreads>(ServiceThreads::Options{0});
    parts.terms.geometry = {2, 4096, 1024};
    EXPECT(parts.bell.open());
  }

  std::future<Result<PeerId>> connect(ConnectionId connection) {
    auto connected = std::make_shared<std::promise<Result<PeerId>>>();
    auto future = connected->get_future();
    sessions.connect(connection, Contact{}, "there:1", std::move(connected));
    return future;
  }
  void receive(ConnectionId connection, MessageType type, std::span<const std::byte> body) {
    handlers.message(connection, {type, 0, 0}, body, {});
  }
  /// Connects, and answers the handshake as an exporter does.
  PeerId make_link(ConnectionId connection) {
    auto connected = connect(connection);
    Welcome welcome;
    welcome.mode = LinkMode::network;
    welcome.geometry = parts.terms.geometry;
    receive(connection, MessageType::welcome, encode(welcome));
    receive(connection, MessageType::accepted, encode(Accepted{}));
    const auto peer = connected.get();
    EXPECT(peer);
    return peer ? *peer : PeerId{};
  }
  Session::TimePoint now() const {
    return Session::TimePoint(std::chrono::nanoseconds(clock.now_ns()));
  }
  void pass(std::chrono::nanoseconds duration) { clock.set_ns(clock.now_ns() + duration.count()); }

  std::shared_ptr<QuietWire> wire = std::make_shared<QuietWire>();
  ManualClock clock;
  SessionParts parts{small_options()};
  Sessions sessions{parts, clock};
  Closing closing{parts, sessions};
  Wire::Handlers handlers = sessions.handlers();
};

}  // namespace

TEST(a_connection_that_nobody_waits_for_is_ended_unless_it_has_a_link) {
  World world;
  auto connected = world.connect(1);
  world.sessions.abandon(1);
  EXPECT(connected.get().error().code == ErrorCode::timeout);
  EXPECT(world.wire->closed.contains(1));
  const PeerId peer = world.make_link(2);
  world.sessions.abandon(2);
  EXPECT(world.sessions.find(peer) != nullptr);
}

TEST(a_peer_without_a_link_cannot_be_left) {
  World world;
  auto connected = world.connect(1);
  auto left = std::make_shared<std::promise<bool>>();
  world.sessions.leave(PeerId{0}, left);
  EXPECT(!left->get_future().get());
  EXPECT_EQ(world.sessions.size(), std::size_t{1});
}

TEST(a_session_that_leaves_ends_when_its_peer_does_not_close_its_end) {
  World world;
  const PeerId peer = world.make_link(1);
  auto left = std::make_shared<std::promise<bool>>();
  auto ended = left->get_future();
  world.sessions.leave(peer, left);
  EXPECT(world.wire->sent.back() == MessageType::goodbye);
  EXPECT(world.sessions.leaving());
  world.sessions.end_leaving();
  EXPECT(ended.wait_for(0s) != std::future_status::ready);
  world.pass(Sessions::goodbye_max);
  world.sessions.end_leaving();
  EXPECT(ended.get());
  EXPECT(!world.sessions.leaving());
  world.sessions.erase_lost();
  EXPECT_EQ(world.sessions.size(), std::size_t{0});
}

TEST(processes_beyond_the_limit_are_refused_and_those_that_say_nothing_are_ended) {
  World world;
  world.handlers.arrived(1);
  world.handlers.arrived(2);
  world.receive(2, MessageType::hello, encode(Hello{}));
  REQUIRE(world.wire->sent.size() == 1);
  EXPECT(world.wire->sent[0] == MessageType::welcome);  // with the refusal
  EXPECT_EQ(world.parts.service_threads->taken(), 0);
  world.pass(11s);
  world.sessions.tick();
  EXPECT(world.wire->closed.contains(1));
  world.sessions.erase_lost();
  EXPECT_EQ(world.sessions.size(), std::size_t{0});
}

TEST(closing_says_goodbye_once_and_ends_in_time) {
  World world;
  const PeerId peer = world.make_link(1);
  const auto link = *world.parts.links.find(peer);
  world.wire->orderly = false;  // an answer is under way
  world.closing.start(world.now());
  EXPECT(world.closing.begun() && link->requester->lost());
  world.closing.step(world.now());
  EXPECT(world.wire->sent.back() != MessageType::goodbye);
  world.wire->orderly = true;
  const std::size_t before = world.wire->sent.size();
  world.closing.step(world.now());
  world.closing.step(world.now());
  EXPECT_EQ(world.wire->sent.size(), before + 1);
  EXPECT(world.wire->sent.back() == MessageType::goodbye);
  EXPECT(!world.wire->closed.contains(1));  // the peer closes its end first
  world.handlers.arrived(2);
  EXPECT(world.wire->closed.contains(2));
  world.pass(Sessions::goodbye_max);
  world.closing.step(world.now());
  EXPECT(world.wire->closed.contains(1));
  EXPECT(world.connect(3).get().error().code == ErrorCode::closed);
  world.closing.step(world.now());
  EXPECT(world.closing.ended() && world.closing.status());
}
