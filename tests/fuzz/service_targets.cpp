// A staging server that gets arbitrary requests from several clients, and a client that gets
// arbitrary replies.
#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "fuzz/targets.hpp"
#include "staging/client/catalog.hpp"
#include "staging/model/limits.hpp"
#include "staging/server/service.hpp"

namespace tranship::fuzz {
namespace {

using namespace tranship::staging;

constexpr std::size_t reply_bytes = 16384;

/// A server with plain memory, and a disk that loses what is written to it.
struct Server {
  explicit Server(unsigned kind)
      : full(kind % 3 == 0   ? Full::block
             : kind % 3 == 1 ? Full::discard_oldest
                             : Full::spill),
        servers(kind % 2 == 0 ? 1 : 3) {}

  Full full;
  int servers;
  std::deque<Move> moves;
  std::vector<std::vector<std::byte>> segments;
  Service service{options()};

  Service::Options options() {
    Service::Options made;
    made.store.memory_bytes = 1 << 18;
    made.store.segment_bytes = 1 << 16;
    made.store.full = full;
    made.store.make_segment = [this](std::int64_t bytes) {
      segments.emplace_back(static_cast<std::size_t>(bytes));
      return Status{};
    };
    made.servers = servers;
    made.contact = "here";
    made.message_bytes = static_cast<std::int64_t>(reply_bytes);
    made.address_of = [this](const Range& range) { return address_of(range); };
    made.notify = [](ClientConnection) {};
    made.move = [this](const Move& move) { moves.push_back(move); };
    return made;
  }

  std::byte* address_of(const Range& range) {
    CHECK(range.segment >= 0 && range.segment < std::ssize(segments), "a segment that is there");
    auto& segment = segments[static_cast<std::size_t>(range.segment)];
    CHECK(
        range.offset >= 0 && range.bytes >= 0 && range.offset + range.bytes <= std::ssize(segment),
        "an object lies inside its segment");
    return segment.data() + range.offset;
  }

  void end_a_move(bool well) {
    if (moves.empty()) return;
    const Move move = moves.front();
    moves.pop_front();
    if (move.kind == Move::Kind::drop) return;
    service.ended(move, well ? Status{} : Status(Error{ErrorCode::io, "the disk failed"}));
  }
};

/// Leaves a whole step, a broken one, and one that clients 1 and 2 write, each with an object and a
/// box without elements.
void write_steps(Server& server) {
  std::vector<std::byte> reply(reply_bytes);
  const auto ask = [&](ClientConnection client, const auto& request) {
    (void)server.service.answer(client, message_of(request).bytes(), reply);
  };
  const auto zeros = [](std::span<std::byte> room) {
    std::fill(room.begin(), room.end(), std::byte{0});
    return Status{};
  };
  PutRequest object{"s", 1, *Box::make({0}, {16}), "i8", 8, {}};
  for (object.step = 1; object.step <= 3; ++object.step) {
    object.version = static_cast<std::int64_t>(object.step);
    PutRequest nothing = object;
    nothing.variable = "nothing";
    nothing.box = *Box::make({0}, {1});
    for (const ClientConnection client : {1, 2}) {
      ask(client, protocol::BeginStep{object.version, 2});
      ask(client, protocol::Put{object, {{}, 128, zeros}, {}});
      ask(client, protocol::PutEmpty{nothing, 1, false});
      const StepContents contents{{{"s", "i8", 8, object.box, 1}, {"nothing", "i8", 8, {}, 0}},
                                  {{"", "dt", "0.5"}}};
      if (object.step == 1) ask(client, protocol::EndStep{object.step, contents});
    }
    if (object.step == 2) ask(2, protocol::GiveUpStep{object.step, "an exception"});
  }
}

}  // namespace

/// Feeds a server, whose kind the first byte chooses, and whether it has steps. Then come requests:
/// client, length and bytes.
void run_service(std::span<const std::byte> input) {
  Source source(input);
  const unsigned kind = source.byte();
  Server server(kind);
  std::vector<std::byte> reply(reply_bytes);
  const auto hello = [&](ClientConnection client) {
    const protocol::Hello request{staging_version, "x", {client, 1}};
    (void)server.service.answer(client, message_of(request).bytes(), reply);
  };
  for (int rank = 1; rank < server.servers; ++rank) {
    const protocol::Join join{staging_version, rank, server.servers, "there"};
    (void)server.service.answer(100, message_of(join).bytes(), reply);
  }
  for (ClientConnection client = 1; client <= 3; ++client) hello(client);
  if (kind % 128 >= 64) write_steps(server);
  while (!source.empty()) {
    const unsigned who = source.byte();
    const ClientConnection client = 1 + who % 4;
    switch (who / 16) {
      case 12: server.service.lost(client); break;
      case 13: server.service.gone(client, who % 2 == 0); break;
      case 14: server.end_a_move(who % 8 != 0); break;
      case 15: hello(client); break;
      default: {
        const auto question = source.take(source.get<std::uint16_t>() % 1024);
        const auto length = server.service.answer(client, question, reply);
        CHECK(!length || *length <= reply.size(), "an answer that is longer than there is room");
        CHECK(length || !length.error().text().empty(), "an error says what is wrong");
      }
    }
  }
  for (ClientConnection client = 1; client <= 4; ++client)
    server.service.gone(client, client % 2 == 0);
  while (!server.moves.empty()) server.end_a_move(true);
  CHECK(!server.service.busy() && server.service.clients() == 0, "what is gone holds nothing");
  CHECK(server.service.memory_bytes_used() <= 1 << 18, "more memory than there is");
}

namespace {

/// Servers whose replies come from the input.
class StrangeServers final : public Servers {
 public:
  explicit StrangeServers(Source& source) : source_(source) {}

  int count() const override { return servers; }
  std::int64_t message_bytes() const override { return static_cast<std::int64_t>(reply_bytes); }
  Result<std::span<const std::byte>> ask(int server, const fabric::MessageWriter& request,
                                         ReplyBuffer& reply) override {
    CHECK(server >= 0 && server < servers, "a server that there is not");
    CHECK(request.bytes().size() <= reply_bytes, "a question that fits no message");
    now_ += 1000;
    if (!reply.bytes) reply.bytes = std::make_unique_for_overwrite<std::byte[]>(reply_bytes);
    const unsigned how = source_.byte();
    if (how == 255 || source_.empty()) return Error{ErrorCode::peer_lost, "the server is gone"};
    const auto bytes = source_.take(source_.get<std::uint16_t>() % 1024);
    if (!bytes.empty()) std::memcpy(reply.bytes.get(), bytes.data(), bytes.size());
    return std::span<const std::byte>(reply.bytes.get(), bytes.size());
  }
  void tell(int server, const fabric::MessageWriter&) override {
    CHECK(server >= 0 && server < servers, "a server that there is not");
  }
  std::uint64_t notices() const override { return 0; }
  void wait(std::uint64_t, std::int64_t until_ns) override { now_ = std::max(now_ + 1, until_ns); }
  std::int64_t now_ns() const override { return now_; }

 private:
  static constexpr int servers = 3;
  Source& source_;
  std::int64_t now_ = 0;
};

void check_held(const LeasedBox& held, const Box& box) {
  CHECK(possible_element_bytes(held.element_bytes), "elements of an impossible size");
  for (const StoredObject& one : held.objects) {
    CHECK(one.primary >= 0 && one.primary < 3, "an object of a server that there is not");
    CHECK(one.box.rank == box.rank, "an object of another rank");
  }
  for (const Part& part : held.parts) {
    CHECK(part.object < held.objects.size(), "a part of no object");
    const Box& whole = held.objects[part.object].box;
    for (std::size_t k = 0; k < static_cast<std::size_t>(box.rank); ++k) {
      CHECK(part.box.lower[k] >= std::max(whole.lower[k], box.lower[k]) &&
                part.box.upper[k] <= std::min(whole.upper[k], box.upper[k]),
            "a part that leads outside");
    }
  }
  const std::int64_t bytes = box.points() * held.element_bytes;
  CHECK(held.data.empty() || std::ssize(held.data) == bytes, "data of another length");
}

void look_for_versions(Catalog& catalog, unsigned how, std::int64_t end_ns) {
  const auto check = [](const VersionExtent& extent) {
    CHECK(extent.box.rank <= 8 && extent.empty_dimensions >> extent.box.rank == 0,
          "a version of more dimensions than there are");
  };
  std::vector<SkippedVersion> skipped;
  if (how % 4 < 3) {
    const VersionQuery query{"v", static_cast<VersionChoice>(how % 4), 3};
    const auto found = catalog.find_version(query, end_ns, &skipped);
    if (found) check(*found);
    return;
  }
  const auto extent = catalog.extent_of("v", 3, end_ns);
  if (extent) check(*extent);
  (void)catalog.boxes_of("v", 3, end_ns);
  (void)catalog.put_empty({"v", 3, *Box::make({0, 0}, {1, 2}), "i8", 8, {}}, 1, end_ns);
  (void)catalog.nothing("v", 3, 4);
}

void use_steps(Catalog& catalog, unsigned how, std::int64_t end_ns) {
  StepClient& steps = catalog.steps();
  std::vector<BrokenStep> broken;
  switch (how % 8) {
    case 0: (void)steps.attributes_of(how % 16 == 0 ? "" : "v"); break;
    case 1: (void)steps.set({{"", "k", "1"}, {"v", "k", ""}}); break;
    case 2: (void)steps.settle(7, end_ns); break;
    case 3: (void)steps.free(7, end_ns); break;
    case 4:
    case 5: {
      const auto id = steps.begin(3, 2, end_ns);
      if (!id) break;
      steps.add(*id, StepVariable{"v", "i8", 8, *Box::make({0}, {4}), 1});
      (void)steps.add(*id, Attribute{"", "k", std::string(how % 8 == 4 ? 7000 : 1, '1')});
      if (how % 16 < 8) {
        (void)steps.end(*id, end_ns);
      } else {
        steps.give_up(*id, "an exception");
      }
      break;
    }
    default: {
      const auto choice = static_cast<VersionChoice>(how % 3);
      const auto found = steps.find({choice, 3}, end_ns, &broken);
      if (!found) break;
      CHECK(choice != VersionChoice::exact || found->number == 3,
            "another step than was asked for");
      CHECK(choice != VersionChoice::next || found->number > 3, "a step that does not go on");
    }
  }
}

}  // namespace

/// Runs calls of a client, which bytes of the input choose, beginning with the first.
void run_answers(std::span<const std::byte> input) {
  Source source(input);
  StrangeServers servers(source);
  Catalog catalog(servers);
  ReplyBuffer reply;
  constexpr std::int64_t end_ns = 1'000'000'000;
  const Box box = *Box::make({0, -4}, {16, 12});
  const Box small = *Box::make({0, 0}, {2, 2});
  const unsigned first = source.byte();
  for (unsigned action = first; !source.empty(); action = source.byte()) {
    switch (action % 8) {
      case 0: {
        const Box& window = action < 128 ? box : small;
        const auto held = catalog.get({"v", VersionChoice::next, 3, window, {}}, reply, end_ns);
        if (!held) break;
        check_held(*held, window);
        (void)catalog.take(*held, end_ns, [&](const LeasedBox& part) {
          check_held(part, window);
          return Status{};
        });
        (void)catalog.release(*held, "a path");
        break;
      }
      case 1: {
        const PutRequest request{"v", 3, box, "i8", 8, {}};
        auto room = catalog.begin(request, end_ns);
        if (!room) break;
        CHECK(room->primary >= 0 && room->primary < servers.count(), "room at no server");
        if (action % 16 == 1)
          catalog.abort(*room);
        else
          (void)catalog.commit(*room, "a path");
        break;
      }
      case 2: {
        const auto fill = [](std::byte* target) {
          std::memset(target, 1, 32);
          return Status{};
        };
        (void)catalog.put({"v", 3, small, "i8", 8, {}}, 32, fill, end_ns);
        break;
      }
      case 3: (void)catalog.list(); break;
      case 4: (void)catalog.status(); break;
      case 5:
        if (action % 16 == 5) {
          (void)catalog.describe("v", true, end_ns);
        } else {
          use_steps(catalog, action / 16, end_ns);
        }
        break;
      case 6:
        if (action % 16 == 6) {
          (void)catalog.wait({"v", VersionChoice::latest, 0, box, {}}, end_ns);
        } else {
          look_for_versions(catalog, action / 16, end_ns);
        }
        break;
      default: (void)(action % 16 == 7 ? catalog.remove("v") : catalog.discard("v", 3));
    }
  }
}

}  // namespace tranship::fuzz
