// A server gets a million requests that no client would send: it replies to or refuses each,
// continues to serve, and loses nothing.
#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "staging/server/service.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

constexpr int questions = 1'000'000;
constexpr int spilled_questions = 200'000;
constexpr ClientConnection honest = 1;
constexpr ClientConnection hostile = 2;

protocol::Get get_of(std::int64_t version) {
  return {{"honest", VersionChoice::exact, version, *Box::make({0}, {16}), {}}};
}

/// A server with plain memory, and a disk whose moves the test carries out.
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
    made.notify = [this](ClientConnection) { ++notices; };
    made.move = [this](const Move& move) { moves.push_back(move); };
    return made;
  }

  std::byte* address_of(const Range& range) {
    return segments[static_cast<std::size_t>(range.segment)].data() + range.offset;
  }
  template <typename Request>
  Result<typename Request::Reply> ask(ClientConnection from, const Request& request) {
    const auto length = service.answer(from, message_of(request).bytes(), reply);
    if (!length) return length.error();
    typename Request::Reply read;
    REQUIRE(read_reply({reply.data(), *length}, read).ok());
    return read;
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
  /// Returns the first element of an honest version, which may have to come back from disk.
  std::int64_t value_of(std::int64_t version) {
    const auto got = ask(honest, get_of(version));
    REQUIRE(got.ok());
    std::int64_t value = -1;
    if (const auto* inside = std::get_if<protocol::InlineData>(&*got)) {
      std::memcpy(&value, inside->data.bytes.last(8).data(), 8);
      return value;
    }
    const FoundObjects& found = std::get<protocol::Objects>(*got).found;
    REQUIRE(found.objects.size() == 1);
    for (int attempt = 0; attempt < 10000; ++attempt) {
      const auto recalled = ask(honest, protocol::Recall{found.lease, found.objects[0].object});
      REQUIRE(recalled.ok());
      if (std::holds_alternative<protocol::Wait>(*recalled)) {
        move_something(true);
        continue;
      }
      std::memcpy(&value, address_of(std::get<protocol::Recalled>(*recalled).range), 8);
      break;
    }
    REQUIRE(ask(honest, protocol::Release{found.lease, "honest", true, 128, "a path"}).ok());
    ++came_back;
    return value;
  }
  void hello(ClientConnection from) {
    REQUIRE(ask(from, protocol::Hello{staging_version, "x", {}}).ok());
  }
};

PutRequest put_of(const std::string& variable, std::int64_t version) {
  return {variable, version, *Box::make({0}, {16}), "i8", 8, {}};
}

/// Returns a put to the variable that the honest client has declared first.
PutRequest honest_put(std::int64_t version) {
  PutRequest put = put_of("honest", version);
  put.incarnation = {1, 1};
  return put;
}

protocol::Put put_message(const PutRequest& request, std::int64_t value) {
  const auto fill = [value](std::span<std::byte> room) {
    const std::vector<std::int64_t> data(16, value);
    std::memcpy(room.data(), data.data(), room.size());
    return Status{};
  };
  return {request, {{}, 128, fill}, {}};
}

/// Returns a random well-formed request about steps or attributes. `get` has a name, a version and
/// a choice.
fabric::MessageWriter some_request_about_steps(RequestKind kind, std::mt19937_64& random,
                                               const GetRequest& get) {
  const std::string& name = get.variable;
  const StepContents contents{{{name, "i8", 8, get.box, 1}, {"v", "f4", 4, {}, 0}},
                              {{"", name, std::to_string(random() % 3)}}};
  const StepId id = random() % 99;
  const auto some = [&] { return static_cast<std::uint32_t>(random() % 4); };
  switch (kind) {
    case RequestKind::begin_step:
      return message_of(protocol::BeginStep{get.version, 1 + static_cast<int>(random() % 3)});
    case RequestKind::add_to_step: return message_of(protocol::AddToStep{id, contents});
    case RequestKind::end_step: return message_of(protocol::EndStep{id, contents});
    case RequestKind::give_up_step:
      return message_of(protocol::GiveUpStep{random() % 2 * id, name, get.version});
    case RequestKind::settle_step:
      return message_of(
          protocol::SettleStep{random() % 9 + 1, static_cast<StepState>(random() % 3 + 2)});
    case RequestKind::step_settled:
      return message_of(protocol::StepSettled{
          id, static_cast<StepState>(random() % 4 + 1), random() % 2 == 0, {1}});
    case RequestKind::query_step: return message_of(protocol::QueryStep{id});
    case RequestKind::find_step:
      return message_of(protocol::FindStep{{get.choice, get.version}, random() % 2 == 0});
    case RequestKind::more_of_step: return message_of(protocol::MoreOfStep{id, some(), some()});
    case RequestKind::free_step: return message_of(protocol::FreeStep{id});
    case RequestKind::define_queue: {
      const auto full = static_cast<QueueFull>(random() % 4 + 1);
      const auto readers = static_cast<int>(some());
      return message_of(protocol::DefineQueue{{readers, full, readers, random() % 2 == 0}});
    }
    case RequestKind::join_readers: {
      const auto sharing = static_cast<Sharing>(random() % 2 + 1);
      return message_of(protocol::JoinReaders{name, sharing, get.version});
    }
    case RequestKind::leave_readers: return message_of(protocol::LeaveReaders{name});
    case RequestKind::take_step:
      return message_of(protocol::TakeStep{name, id, get.version, random() % 2 == 0});
    case RequestKind::release_step: return message_of(protocol::ReleaseStep{name, id});
    case RequestKind::set_attributes:
      return message_of(protocol::SetAttributes{contents.attributes});
    case RequestKind::get_attributes:
      return message_of(protocol::GetAttributes{random() % 2 == 0 ? name : std::string(),
                                                random() % 2 == 0 ? name : std::string()});
    default: return fabric::MessageWriter().add(random());
  }
}

protocol::Reduce some_reduction(std::mt19937_64& random, const PutRequest& put) {
  const auto kind = static_cast<ReductionKind>(random() % 4);
  const auto origin = static_cast<std::int64_t>(random() % 3);
  const Reduction reduction{kind, {0, 1, 4}, {origin}, {static_cast<std::int64_t>(random() % 4)}};
  return {random() % 200, random() % 200, put.box, put.type, reduction};
}

fabric::MessageWriter some_request(std::mt19937_64& random);

/// Returns a message with up to three requests.
fabric::MessageWriter some_batch(std::mt19937_64& random) {
  std::vector<fabric::MessageWriter> ones;
  for (std::uint64_t k = random() % 4; k > 0; --k) ones.push_back(some_request(random));
  protocol::Batch batch;
  for (const auto& one : ones) batch.requests.push_back(payload_of(one.bytes()));
  return message_of(batch);
}

/// A put, and the index entry of an object of its version.
struct SomePut {
  PutRequest put;
  protocol::IndexEntryId entry;
};

/// Returns a random well-formed request of that kind about offers, or one about steps.
fabric::MessageWriter some_request_about_offers(RequestKind kind, std::mt19937_64& random,
                                                const SomePut& some, const GetRequest& get) {
  switch (kind) {
    case RequestKind::offer:
      return message_of(
          protocol::Offer{some.put, {"unix:@there", "a name", "a producer"}, random() % 9});
    case RequestKind::end_offers:
      return message_of(protocol::EndOffers{{random() % 200, random() % 200}, random() % 2 == 0});
    case RequestKind::withdraw_entry: return message_of(protocol::WithdrawEntry{some.entry});
    case RequestKind::query_offer:
      return message_of(protocol::QueryOffer{random() % 200, random() % 200});
    default: return some_request_about_steps(kind, random, get);
  }
}

/// Returns a random well-formed request of the protocol.
fabric::MessageWriter some_request(std::mt19937_64& random) {
  const std::string name = random() % 8 == 0 ? "honest" : "v" + std::to_string(random() % 4);
  const auto version = static_cast<std::int64_t>(random() % 6);
  PutRequest put = put_of(name, version);
  put.step = random() % 4 == 0 ? random() % 9 : 0;
  const GetRequest get{name, static_cast<VersionChoice>(random() % 3), version, put.box, {}};
  const auto server = [&] { return static_cast<int>(random() % 3); };
  const protocol::IndexEntryId entry{name, version, {server(), random() % 50}};
  const auto bytes = static_cast<std::int64_t>(random() >> 1);
  const auto kind = static_cast<RequestKind>(random() % 56);
  switch (kind) {
    case RequestKind::hello:
      return message_of(protocol::Hello{staging_version, "again", {random() % 3, 1}});
    case RequestKind::put: return message_of(put_message(put, 7));
    case RequestKind::define: return message_of(protocol::Define{put, server()});
    case RequestKind::declare: return message_of(protocol::Declare{put});
    case RequestKind::begin: {
      const auto effort = static_cast<Effort>(random() % 5);
      return message_of(protocol::Begin{put, effort, random() % 2 == 0, {server()}, random() % 9});
    }
    case RequestKind::index: return message_of(protocol::Index{put, entry.id, random() % 2 == 0});
    case RequestKind::get: return message_of(protocol::Get{get, random() % 9});
    case RequestKind::wait: return message_of(protocol::QueryVersion{get, random() % 9});
    case RequestKind::find: return message_of(protocol::Find{get, false, random() % 9});
    case RequestKind::unindex: return message_of(protocol::Unindex{entry});
    case RequestKind::lease:
      return message_of(
          protocol::Lease{name, version, false, {random() % 50, random() % 50}, random() % 9});
    case RequestKind::undo: return message_of(protocol::Undo{random() % 9});
    case RequestKind::drop_orphans:
      return message_of(protocol::DropOrphans{server(), {{0, random() % 50}}});
    case RequestKind::recall: return message_of(protocol::Recall{random() % 200, random() % 200});
    case RequestKind::confirm:
      return message_of(protocol::Confirm{entry, random() % 2 == 0 ? random() : random() % 50});
    case RequestKind::commit: {
      const Checksum checksum{static_cast<std::uint32_t>(random() % 2), 1};
      return message_of(protocol::Commit{random() % 50, random(), name, bytes, "a path", checksum});
    }
    case RequestKind::take_pages: return message_of(protocol::TakePages{random() % 50});
    case RequestKind::abort: return message_of(protocol::Abort{random() % 50});
    case RequestKind::more: return message_of(protocol::More{random() % 50, random() % 50});
    case RequestKind::release:
      return message_of(
          protocol::Release{random() % 50, name, true, bytes, std::to_string(random())});
    case RequestKind::describe: return message_of(protocol::Describe{name, true});
    case RequestKind::bounds: return message_of(protocol::Bounds{name});
    case RequestKind::remove:
      return message_of(protocol::Remove{"v" + std::to_string(random() % 9),
                                         random() % 3 == 0 ? random() % 99 : 0});
    case RequestKind::discard: return message_of(protocol::Discard{name, version});
    case RequestKind::discard_too: return message_of(protocol::DiscardToo{put});
    case RequestKind::finish:
      return message_of(protocol::Finish{name, version, version + server() - 1, random() % 2 == 0,
                                         random() % 2 == 0});
    case RequestKind::put_empty: {
      PutRequest nothing = put;
      nothing.box.upper[0] = nothing.box.lower[0] + 1;
      return message_of(protocol::PutEmpty{nothing, 1, random() % 2 == 0});
    }
    case RequestKind::extent:
      return message_of(protocol::FindExtent{name, get.choice, version, {}, random() % 2 == 0});
    case RequestKind::list: return message_of(protocol::List{name, version});
    case RequestKind::join: return message_of(protocol::Join{staging_version, 1, 1, "there"});
    case RequestKind::status: return message_of(protocol::QueryStatus{});
    case RequestKind::batch: return some_batch(random);
    case RequestKind::reduce: return message_of(some_reduction(random, put));
    default: return some_request_about_offers(kind, random, {put, entry}, get);
  }
}

/// Returns whether the request deletes the honest variable. Any client may do so; it would end the
/// test.
bool deletes_honest(std::span<const std::byte> request) {
  protocol::Batch batch;
  if (kind_of(request) == RequestKind::batch && request.size() > 4 &&
      read_body(request.subspan(4), batch).ok()) {
    return std::any_of(batch.requests.begin(), batch.requests.end(),
                       [](const Payload& one) { return deletes_honest(one.bytes); });
  }
  protocol::Remove remove;
  return kind_of(request) == RequestKind::remove && request.size() > 4 &&
         read_body(request.subspan(4), remove).ok() && remove.variable == "honest";
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
  REQUIRE(server.ask(honest, protocol::Declare{put_of("honest", 1)}).ok());
  std::mt19937_64 random(11);
  std::int64_t answered = 0;
  for (int k = 0; k < questions; ++k) {
    const auto request = changed(some_request(random).bytes(), random);
    const auto length = server.service.answer(hostile, request, server.reply);
    if (length) {
      ++answered;
      EXPECT(*length <= server.reply.size());
    }
    if (k % 1000 != 0) continue;
    // Meanwhile an honest client is served; sometimes the hostile client leaves, and comes again.
    const std::int64_t version = 1'000'000 + k;
    const auto put = server.ask(honest, put_message(honest_put(version), k));
    REQUIRE(put.ok());
    EXPECT_EQ(server.value_of(version), k);
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
  REQUIRE(server.ask(honest, protocol::Declare{put_of("honest", 1)}).ok());
  std::mt19937_64 random(12);
  std::map<std::int64_t, std::int64_t> put;  // values by version
  for (int k = 0; k < spilled_questions; ++k) {
    const auto request = changed(some_request(random).bytes(), random);
    (void)server.service.answer(hostile, request, server.reply);
    if (random() % 2 == 0) server.move_something(random() % 8 != 0);
    if (k % 10 != 0) continue;
    // These versions, which the hostile client does not reach by changed bits, fill the memory, and
    // go to disk.
    const std::int64_t version = 0x5a5a'5a5a'0000 + k;
    const auto answer = server.ask(honest, put_message(honest_put(version), k));
    REQUIRE(answer.ok());
    if (std::holds_alternative<protocol::DoneWithOrphans>(*answer)) put[version] = k;
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
