// A server is asked a million things that no client would say: it answers or refuses each, serves
// on, and loses nothing.
#include <random>
#include <string>
#include <vector>

#include "staging/service.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

constexpr int questions = 1'000'000;
constexpr Owner honest = 1;
constexpr Owner hostile = 2;

/// A server whose memory is plain.
struct Fixture {
  std::vector<std::vector<std::byte>> segments;
  std::int64_t notices = 0;
  Service service{options()};
  std::vector<std::byte> reply = std::vector<std::byte>(16384);

  Service::Options options() {
    Service::Options made;
    made.store.memory_bytes = 1 << 20;
    made.store.segment_bytes = 1 << 16;
    made.store.full = Full::discard_oldest;
    made.store.make_segment = [this](std::int64_t bytes) {
      segments.emplace_back(static_cast<std::size_t>(bytes));
      return Status{};
    };
    made.contact = "here";
    made.message_bytes = 16384;
    made.address_of = [this](const Range& range) {
      return segments[static_cast<std::size_t>(range.segment)].data() + range.offset;
    };
    made.notify = [this](Owner) { ++notices; };
    return made;
  }

  Result<std::size_t> ask(Owner from, const MessageWriter& question) {
    return service.answer(from, question.bytes(), reply);
  }
  void hello(Owner from) {
    REQUIRE(ask(from, MessageWriter().add(Ask::hello).add(staging_version).text("x")).ok());
  }
};

PutRequest put_of(const std::string& variable, std::int64_t version) {
  return {variable, version, *Box::make({0}, {16}), "i8", 8};
}

MessageWriter put_message(const PutRequest& request, std::int64_t value) {
  MessageWriter question;
  question.add(Ask::put);
  add(question, request);
  const std::vector<std::int64_t> data(16, value);
  question.add(std::as_bytes(std::span(data)));
  return question;
}

/// Something of the protocol, well formed.
MessageWriter some_question(std::mt19937_64& random) {
  const auto ask = static_cast<Ask>(random() % 25);
  const std::string name = random() % 8 == 0 ? "honest" : "v" + std::to_string(random() % 4);
  const auto version = static_cast<std::int64_t>(random() % 6);
  const PutRequest put = put_of(name, version);
  MessageWriter question;
  question.add(ask);
  switch (ask) {
    case Ask::hello: question.add(staging_version).text("again"); break;
    case Ask::put: return put_message(put, 7);
    case Ask::define:
    case Ask::declare:
    case Ask::begin: add(question, put); break;
    case Ask::enter:
      add(question, put);
      question.add(static_cast<int>(random() % 3)).add(random() % 50);
      break;
    case Ask::get:
    case Ask::wait:
    case Ask::find:
      add(question, GetRequest{name, static_cast<Which>(random() % 3), version, put.box});
      question.add(std::uint32_t{0});
      break;
    case Ask::leave: question.text(name).add(version).add(1).add(random() % 50); break;
    case Ask::lease:
      question.text(name).add(version).add(std::uint32_t{0}).add(std::uint32_t{2});
      question.add(random() % 50).add(random() % 50);
      break;
    case Ask::settle: question.add(random() % 2 == 0 ? random() : random() % 50); break;
    case Ask::commit: question.add(random() % 50).add(random()); break;
    case Ask::describe: question.text(name).add(std::uint32_t{1}); break;
    case Ask::bounds: question.text(name); break;
    case Ask::discard:
    case Ask::list: question.text(name).add(version); break;
    default: question.add(random() % 50).add(random() % 50); break;
  }
  return question;
}

std::vector<std::byte> changed(std::vector<std::byte> bytes, std::mt19937_64& random) {
  for (std::uint64_t k = random() % 4; k > 0 && !bytes.empty(); --k) {
    const std::size_t place = random() % bytes.size();
    switch (random() % 3) {
      case 0: bytes[place] = static_cast<std::byte>(random()); break;
      case 1: bytes[place] ^= static_cast<std::byte>(1U << random() % 8); break;
      default: bytes.resize(place); break;
    }
  }
  return bytes;
}

}  // namespace

TEST(a_million_strange_questions_do_no_harm) {
  Fixture server;
  server.hello(honest);
  server.hello(hostile);
  MessageWriter declare;
  declare.add(Ask::declare);
  add(declare, put_of("honest", 1));
  REQUIRE(server.ask(honest, declare).ok());
  std::mt19937_64 random(11);
  std::int64_t answered = 0;
  for (int k = 0; k < questions; ++k) {
    const auto question = changed(some_question(random).bytes(), random);
    const auto length = server.service.answer(hostile, question, server.reply);
    if (length) {
      ++answered;
      EXPECT(*length <= server.reply.size());
    }
    if (k % 1000 != 0) continue;
    // Among all that, an honest client is served; now and then the other one goes, and comes anew.
    const std::int64_t version = 1'000'000 + k;
    const auto put = server.ask(honest, put_message(put_of("honest", version), k));
    REQUIRE(put.ok());
    MessageWriter get;
    get.add(Ask::get);
    add(get, GetRequest{"honest", Which::exact, version, *Box::make({0}, {16})});
    const auto got = server.ask(honest, get);
    REQUIRE(got.ok());
    std::int64_t value = -1;
    if (*got >= 8) std::memcpy(&value, server.reply.data() + *got - 8, 8);
    EXPECT_EQ(value, k);
    if (k % 10000 == 0) {
      server.service.gone(hostile, k % 20000 == 0);
      server.hello(hostile);
    }
  }
  EXPECT(answered > questions / 20);
  server.service.gone(hostile, false);
  server.service.gone(honest, true);
  EXPECT(!server.service.busy());
  EXPECT_EQ(server.service.clients(), 0);
  EXPECT(server.service.memory_bytes_used() <= 1 << 20);
}
