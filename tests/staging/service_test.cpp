// Clients, their connections and their ends, as a server sees them.
#include "staging/service.hpp"

#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

constexpr ClientId one{7, 7};

struct Fixture {
  std::vector<std::vector<std::byte>> segments;
  std::int64_t now_ns = 0;
  Service service{options()};
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
    made.notify = [](Owner) {};
    made.move = [](const Move&) {};
    return made;
  }
  Result<std::size_t> ask(Owner from, const MessageWriter& question) {
    return service.answer(from, question.bytes(), reply);
  }
  bool hello(Owner from, const ClientId& id) {
    MessageWriter question = question_of(Ask::hello);
    return ask(from, question.add(staging_version).text("x").add(id)).ok();
  }
  bool declare(Owner from) {
    MessageWriter question = question_of(Ask::declare);
    add(question, PutRequest{"x", 1, *Box::make({0}, {4}), "f8", 8, {}});
    return ask(from, question).ok();
  }
  Facts facts() {
    MessageWriter question = question_of(Ask::describe);
    const auto length = ask(9, question.text("x").add(std::uint32_t{0}));
    REQUIRE(length.ok());
    MessageReader in({reply.data(), *length});
    Facts found;
    REQUIRE(in.get<Said>() == Said::done && read(in, found));
    return found;
  }
};

}  // namespace

TEST(a_client_that_comes_back_is_neither_dead_nor_another) {
  Fixture server;
  REQUIRE(server.hello(9, {}));
  REQUIRE(server.hello(1, one) && server.declare(1));
  server.service.lost(1);
  EXPECT(server.facts().ended() && server.facts().lost_producer());
  EXPECT(!server.hello(1, one));  // that connection is no more
  EXPECT(!server.declare(1));
  REQUIRE(server.hello(2, one));
  EXPECT(server.facts().producers == 1 && !server.facts().lost_producer());
  REQUIRE(server.declare(2));
  EXPECT_EQ(server.facts().came, 1);
  server.service.gone(1, false);  // what the old connection might touch, it touches no more
  EXPECT(server.facts().producers == 1 && !server.facts().lost_producer());
  REQUIRE(server.hello(3, one));  // two at a time
  server.service.gone(2, true);
  EXPECT(server.facts().producers == 1);
  server.service.gone(3, true);
  EXPECT(server.facts().ended() && !server.facts().lost_producer());
  EXPECT_EQ(server.service.clients(), 1);
}

TEST(a_client_cannot_pass_for_another_connection_of_its_own) {
  Fixture server;
  REQUIRE(server.hello(9, {}));
  REQUIRE(server.hello(1, one) && server.declare(1));
  REQUIRE(server.hello(1, {8, 8}));  // who has an identity keeps it
  server.service.gone(1, false);
  EXPECT(server.facts().ended() && server.facts().lost_producer());
}

TEST(a_client_that_reads_for_too_long_gets_nothing_new) {
  Fixture server;
  REQUIRE(server.hello(1, one) && server.declare(1));
  MessageWriter put = question_of(Ask::put);
  add(put, PutRequest{"x", 1, *Box::make({0}, {4}), "f8", 8, {1, 1}});
  const std::vector<std::byte> data(32);
  REQUIRE(server.ask(1, put.add(data).add(Checksum{})).ok());
  const auto find = [&](Ticket ticket) {
    MessageWriter question = question_of(Ask::find);
    add(question, GetRequest{"x", Which::exact, 1, *Box::make({0}, {4}), {}});
    return server.ask(1, question.add(std::uint32_t{0}).add(ticket));
  };
  REQUIRE(find(5).ok());
  server.now_ns = 9'000'000'000;
  REQUIRE(find(6).ok());
  server.now_ns = 10'000'000'000;
  const auto refused = find(7);
  EXPECT(!refused.ok() && refused.error().message.find("staging_lease_s") != std::string::npos);
  REQUIRE(server.ask(1, question_of(Ask::undo).add(Ticket{5})).ok());  // the old one ends
  EXPECT(find(7).ok());
}
