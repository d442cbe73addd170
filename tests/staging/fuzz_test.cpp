// A server is asked a million things that no client would say: it answers or refuses each, serves
// on, and loses nothing.
#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "staging/service.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

constexpr int questions = 1'000'000;
constexpr int spilled_questions = 200'000;
constexpr Owner honest = 1;
constexpr Owner hostile = 2;

/// A server whose memory is plain, and whose disk has nothing but time.
struct Fixture {
  explicit Fixture(Full policy = Full::discard_oldest) : full(policy) {}

  Full full;
  std::deque<Move> moves;
  std::vector<std::byte> disk;
  int came_back = 0;
  std::vector<std::vector<std::byte>> segments;
  std::int64_t notices = 0;
  Service service{options()};
  std::vector<std::byte> reply = std::vector<std::byte>(16384);

  Service::Options options() {
    Service::Options made;
    made.store.memory_bytes = 1 << 20;
    made.store.segment_bytes = 1 << 16;
    made.store.full = full;
    made.store.make_segment = [this](std::int64_t bytes) {
      segments.emplace_back(static_cast<std::size_t>(bytes));
      return Status{};
    };
    made.contact = "here";
    made.message_bytes = 16384;
    made.address_of = [this](const Range& range) { return address_of(range); };
    made.notify = [this](Owner) { ++notices; };
    made.move = [this](const Move& move) { moves.push_back(move); };
    return made;
  }

  std::byte* address_of(const Range& range) {
    return segments[static_cast<std::size_t>(range.segment)].data() + range.offset;
  }
  Result<std::size_t> ask(Owner from, const MessageWriter& question) {
    return service.answer(from, question.bytes(), reply);
  }
  void move_something(bool well) {
    if (moves.empty()) return;
    const Move move = moves.front();
    moves.pop_front();
    if (move.kind == Move::Kind::drop) return;
    const auto bytes = static_cast<std::size_t>(move.memory.bytes);
    const auto begin = static_cast<std::size_t>(move.disk.offset);
    disk.resize(std::max(disk.size(), begin + bytes));
    std::byte* memory = address_of(move.memory);
    const bool out = move.kind == Move::Kind::out;
    if (well) std::memcpy(out ? &disk[begin] : memory, out ? memory : &disk[begin], bytes);
    const Error failure{ErrorCode::io, "the disk failed"};
    service.ended(move, well ? Status{} : Status(failure));
  }
  /// The first element of an honest version, which may have to come back from disk.
  std::int64_t value_of(std::int64_t version) {
    MessageWriter get;
    get.add(Ask::get);
    add(get, GetRequest{"honest", Which::exact, version, *Box::make({0}, {16})});
    const auto length = ask(honest, get.add(Ticket{0}));
    REQUIRE(length.ok());
    MessageReader in({reply.data(), *length});
    std::int64_t value = -1;
    if (in.get<Said>() == Said::data) {
      std::memcpy(&value, reply.data() + *length - 8, 8);
      return value;
    }
    Found found;
    std::size_t left = 0;
    REQUIRE(read(in, found, left) && found.objects.size() == 1);
    for (int attempt = 0; attempt < 10000; ++attempt) {
      const auto recalled = ask(
          honest, MessageWriter().add(Ask::recall).add(found.lease).add(found.objects[0].object));
      REQUIRE(recalled.ok());
      MessageReader answer({reply.data(), *recalled});
      if (answer.get<Said>() == Said::waiting) {
        move_something(true);
        continue;
      }
      std::memcpy(&value, address_of(read_range(answer)), 8);
      break;
    }
    MessageWriter release;
    release.add(Ask::release).add(found.lease).text("honest").add(std::uint32_t{1});
    REQUIRE(ask(honest, release.add(std::int64_t{128}).text("a path")).ok());
    ++came_back;
    return value;
  }
  void hello(Owner from) {
    REQUIRE(
        ask(from, MessageWriter().add(Ask::hello).add(staging_version).text("x").add(ClientId{}))
            .ok());
  }
};

PutRequest put_of(const std::string& variable, std::int64_t version) {
  return {variable, version, *Box::make({0}, {16}), "i8", 8, {}};
}

/// Of a variable that its writer has declared first of all.
PutRequest honest_put(std::int64_t version) {
  PutRequest put = put_of("honest", version);
  put.life = {1, 1};
  return put;
}

MessageWriter put_message(const PutRequest& request, std::int64_t value) {
  MessageWriter question;
  question.add(Ask::put);
  add(question, request);
  const std::vector<std::int64_t> data(16, value);
  question.add(std::as_bytes(std::span(data)));
  question.add(Checksum{});
  return question;
}

/// Something of the protocol, well formed.
MessageWriter some_question(std::mt19937_64& random) {
  const auto ask = static_cast<Ask>(random() % 28);
  const std::string name = random() % 8 == 0 ? "honest" : "v" + std::to_string(random() % 4);
  const auto version = static_cast<std::int64_t>(random() % 6);
  const PutRequest put = put_of(name, version);
  MessageWriter question;
  question.add(ask);
  switch (ask) {
    case Ask::hello:
      question.add(staging_version).text("again").add(ClientId{random() % 3, 1});
      break;
    case Ask::put: return put_message(put, 7);
    case Ask::define:
    case Ask::declare: add(question, put); break;
    case Ask::begin:
      add(question, put);
      question.add(static_cast<std::uint32_t>(random() % 5)).add(std::uint32_t{1});
      question.add(static_cast<int>(random() % 3)).add(random() % 9);
      break;
    case Ask::enter:
      add(question, put);
      question.add(static_cast<int>(random() % 3)).add(random() % 50);
      question.add(static_cast<std::uint32_t>(random() % 2));
      break;
    case Ask::get:
    case Ask::wait:
    case Ask::find:
      add(question, GetRequest{name, static_cast<Which>(random() % 3), version, put.box});
      if (ask == Ask::find) question.add(std::uint32_t{0});
      question.add(random() % 9);
      break;
    case Ask::leave: add_entry(question, name, version, {1, random() % 50}); break;
    case Ask::lease:
      question.text(name).add(version).add(std::uint32_t{0}).add(std::uint32_t{2});
      question.add(random() % 50).add(random() % 50).add(random() % 9);
      break;
    case Ask::undo: question.add(random() % 9); break;
    case Ask::forget:
      question.add(static_cast<int>(random() % 3)).add(std::uint32_t{1}).add(0).add(random() % 50);
      break;
    case Ask::recall: question.add(random() % 200).add(random() % 200); break;
    case Ask::settle:
      add_entry(question, name, version, {static_cast<int>(random() % 3), random() % 50});
      question.add(random() % 2 == 0 ? random() : random() % 50);
      break;
    case Ask::commit:
      question.add(random() % 50).add(random()).text(name).add(random() >> 1).text("a path");
      question.add(Checksum{static_cast<std::uint32_t>(random() % 2), 1});
      break;
    case Ask::release:
      question.add(random() % 50).text(name).add(std::uint32_t{1}).add(random() >> 1);
      question.text(std::to_string(random()));
      break;
    case Ask::describe: question.text(name).add(std::uint32_t{1}); break;
    case Ask::bounds: question.text(name); break;
    case Ask::remove:
      question.text("v" + std::to_string(random() % 9)).add(random() % 3 == 0 ? random() % 99 : 0);
      break;
    case Ask::discard:
    case Ask::list: question.text(name).add(version); break;
    default: question.add(random() % 50).add(random() % 50); break;
  }
  return question;
}

/// Any client may delete any variable: that is no harm, and would end the test.
bool deletes_honest(std::span<const std::byte> question) {
  MessageReader in(question);
  return in.get<Ask>() == Ask::remove && in.text() == "honest";
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
  if (deletes_honest(bytes)) bytes.clear();
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
    const auto put = server.ask(honest, put_message(honest_put(version), k));
    REQUIRE(put.ok());
    MessageWriter get;
    get.add(Ask::get);
    add(get, GetRequest{"honest", Which::exact, version, *Box::make({0}, {16})});
    const auto got = server.ask(honest, get.add(Ticket{0}));
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

TEST(strange_questions_do_no_harm_to_what_is_spilled) {
  Fixture server(Full::spill);
  server.hello(honest);
  server.hello(hostile);
  MessageWriter declare;
  declare.add(Ask::declare);
  add(declare, put_of("honest", 1));
  REQUIRE(server.ask(honest, declare).ok());
  std::mt19937_64 random(12);
  std::map<std::int64_t, std::int64_t> put;  // values by version
  for (int k = 0; k < spilled_questions; ++k) {
    const auto question = changed(some_question(random).bytes(), random);
    (void)server.service.answer(hostile, question, server.reply);
    if (random() % 2 == 0) server.move_something(random() % 8 != 0);
    if (k % 10 != 0) continue;
    // Versions that the other one does not hit upon, whatever bits it turns, fill the memory, and
    // go to disk.
    const std::int64_t version = 0x5a5a'5a5a'0000 + k;
    const auto length = server.ask(honest, put_message(honest_put(version), k));
    REQUIRE(length.ok());
    MessageReader in({server.reply.data(), *length});
    if (in.get<Said>() == Said::done) put[version] = k;
    if (k % 100 == 0) {
      const auto some = std::next(put.begin(), static_cast<int>(random() % put.size()));
      EXPECT_EQ(server.value_of(some->first), some->second);
    }
    if (k % 10000 != 0) continue;
    server.service.gone(hostile, false);
    server.hello(hostile);
  }
  EXPECT(server.came_back > 500);
  EXPECT(server.service.spilled_bytes() > 0);
  server.service.gone(hostile, false);
  server.service.gone(honest, true);
  while (!server.moves.empty()) server.move_something(true);
  EXPECT(!server.service.busy());
  EXPECT(server.service.disk_bytes_used() >= server.service.spilled_bytes());
}
