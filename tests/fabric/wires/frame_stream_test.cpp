// Messages on sockets that are cut at any byte, and bytes that are changed on the way: each message
// arrives whole and once.
#include "fabric/wires/frame_stream.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <deque>
#include <vector>

#include "base/random.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::fabric;

namespace {

/// Returns two connected sockets that never block.
std::array<FileDescriptor, 2> joined() {
  std::array<int, 2> numbers{-1, -1};
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, numbers.data()) == 0);
  const int bytes = 4096;  // small, so that messages are sent in pieces
  for (const int one : numbers) {
    (void)setsockopt(one, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  }
  return {FileDescriptor(numbers[0]), FileDescriptor(numbers[1])};
}

/// A relay between two ends, which may pass on as few bytes at a time as the test wants.
struct Wires {
  std::array<FileDescriptor, 2> near = joined();
  std::array<FileDescriptor, 2> far = joined();
  std::array<std::vector<std::byte>, 2> waiting{};

  int end(int side) const { return side == 0 ? near[0].get() : far[0].get(); }
  int inside(int side) const { return side == 0 ? near[1].get() : far[1].get(); }

  /// Passes on up to `bytes` bytes; with `flips`, changes one bit of them.
  void pass_on(int from, std::size_t bytes, Random* flips = nullptr) {
    auto& buffer = waiting[static_cast<std::size_t>(from)];
    if (buffer.empty()) {
      buffer.resize(bytes);
      const ssize_t length = recv(inside(from), buffer.data(), buffer.size(), 0);
      buffer.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
    }
    if (flips != nullptr && !buffer.empty()) {
      auto& one = buffer[static_cast<std::size_t>(flips->below(std::ssize(buffer)))];
      one ^= static_cast<std::byte>(1U << flips->below(8));
    }
    const ssize_t sent = ::send(inside(1 - from), buffer.data(), buffer.size(), MSG_NOSIGNAL);
    if (sent > 0) buffer.erase(buffer.begin(), buffer.begin() + sent);
  }
};

std::byte content(std::uint64_t message, std::size_t offset) {
  return static_cast<std::byte>(message * 31 + offset * 7);
}

/// Returns the space for the rest of a message's bulk in `placed`, which is renewed at offset 0, in
/// parts of at most `part_bytes`; the last ones may be left for the next call.
ReceiveBuffer room_in(std::vector<std::byte>& placed, std::int64_t offset, std::int64_t left,
                      std::size_t part_bytes = SIZE_MAX) {
  if (offset == 0) placed.assign(static_cast<std::size_t>(left), std::byte{});
  std::span<std::byte> rest = std::span(placed).subspan(static_cast<std::size_t>(offset));
  ReceiveBuffer room;
  const auto part = [&] {
    const auto taken = rest.first(std::min(rest.size(), part_bytes));
    rest = rest.subspan(taken.size());
    return taken;
  };
  room.bytes = part();
  while (!rest.empty() && room.more.size() < 400) room.more.push_back(part());
  return room;
}

/// Returns bytes as parts of at most `part_bytes`.
GatheredBytes in_parts(std::span<const std::byte> bytes, std::size_t part_bytes) {
  GatheredBytes all;
  for (std::size_t at = 0; at < bytes.size(); at += part_bytes) {
    all.add(bytes.subspan(at, std::min(part_bytes, bytes.size() - at)));
  }
  return all;
}

/// One end of a connection that is resumed on one socket after another.
struct End {
  explicit End(Random& r) : random(r) {}

  void send() {
    const std::uint64_t number = ++sent;
    bodies.assign(static_cast<std::size_t>(random.below(300)), std::byte{});
    for (std::size_t k = 0; k < bodies.size(); ++k) bodies[k] = content(number, k);
    const bool with_bulk = random.chance(0.5);
    auto& bulk =
        bulks.emplace_back(static_cast<std::size_t>(with_bulk ? random.between(1, 30000) : 0));
    for (std::size_t k = 0; k < bulk.size(); ++k) bulk[k] = content(number, k + 1);
    WireMessage message;
    message.header.type = MessageType::notice;
    message.header.call = number;
    message.body = bodies;
    message.bulk = in_parts(bulk, random.chance(0.5) ? 30000 : random.between(1, 3000));
    EXPECT(writer.send(message, random.chance(0.5)));
  }

  void read(const ByteStream& stream) {
    FrameReader::Handlers handlers;
    handlers.place = [this](const MessageHeader&, std::span<const std::byte>, std::int64_t offset,
                            std::int64_t left) {
      return room_in(placed, offset, left, random.chance(0.5) ? SIZE_MAX : random.between(1, 3000));
    };
    handlers.frame = [this](const FrameHeader& frame, std::span<const std::byte> body,
                            std::span<FileDescriptor>) {
      writer.acknowledged(frame.acknowledged);
      if (frame.type == MessageType::acknowledge) return true;
      if (frame.sequence != received + 1 || frame.call != received + 1) wrong = true;
      received = frame.sequence;
      writer.set_received(received);
      for (std::size_t k = 0; k < body.size(); ++k) wrong |= body[k] != content(frame.call, k);
      if (frame.bulk_bytes != (placed.empty() ? 0 : placed.size())) wrong = true;
      for (std::size_t k = 0; k < placed.size(); ++k) {
        wrong |= placed[k] != content(frame.call, k + 1);
      }
      placed.clear();
      return true;
    };
    bool any = false;
    const auto outcome = reader.read(stream, handlers, any);
    wrong |= outcome == FrameReader::Outcome::refused;
    damaged |= outcome == FrameReader::Outcome::damaged || outcome == FrameReader::Outcome::broken;
    if (any) writer.acknowledge(32);
  }

  Random& random;
  FrameWriter writer{true};
  FrameReader reader{false};
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::vector<std::byte> bodies;
  std::deque<std::vector<std::byte>> bulks;
  std::vector<std::byte> placed;
  bool wrong = false;
  bool damaged = false;  ///< the bytes that arrived were damaged, or the connection broke
};

enum class Protection { none, checksums, tls };

/// Returns both ends of the wires, encrypted if `protection` is TLS.
std::array<ByteStream, 2> streams_of(Wires& wires, Protection protection) {
  if (protection != Protection::tls) return {wires.end(0), wires.end(1)};
  const Key key{std::byte{3}};
  auto client = TlsStream::make({wires.end(0), TlsStream::Role::client, key, 7});
  auto server = TlsStream::make({wires.end(1), TlsStream::Role::server, key, 5});
  REQUIRE(client.ok() && server.ok());
  auto steps = std::array{TlsStream::Step::waits, TlsStream::Step::waits};
  for (int k = 0; k < 100 && steps != std::array{TlsStream::Step::done, TlsStream::Step::done};
       ++k) {
    if (steps[0] == TlsStream::Step::waits) steps[0] = (*client)->shake_hands();
    wires.pass_on(0, 5000);
    if (steps[1] == TlsStream::Step::waits) steps[1] = (*server)->shake_hands();
    wires.pass_on(1, 5000);
  }
  REQUIRE(steps[0] == TlsStream::Step::done && steps[1] == TlsStream::Step::done);
  return {ByteStream(wires.end(0), *client), ByteStream(wires.end(1), *server)};
}

/// Sends from both ends, while the connection is cut now and then, and bytes are changed if
/// checksums or TLS protect them; returns whether all messages arrived unchanged.
bool run(std::uint64_t seed, Protection protection) {
  Random random(seed);
  End a(random);
  End b(random);
  auto wires = std::make_unique<Wires>();
  std::array<ByteStream, 2> streams;
  const auto attach = [&] {
    a.writer.detach();
    b.writer.detach();
    wires = std::make_unique<Wires>();
    streams = streams_of(*wires, protection);
    for (End* end : {&a, &b}) {
      end->reader.reset();
      end->placed.clear();
      end->damaged = false;
      end->writer.set_checksums(protection == Protection::checksums);
      end->reader.set_checksums(protection == Protection::checksums);
    }
    a.writer.attach(streams[0], b.received);
    b.writer.attach(streams[1], a.received);
  };
  attach();
  const auto messages = static_cast<std::uint64_t>(random.between(1, 60));
  for (int step = 0; step < 20000; ++step) {
    if (a.received == messages && b.received == messages) break;
    End& one = random.chance(0.5) ? a : b;
    const ByteStream& stream = streams[&one == &a ? 0 : 1];
    const auto bytes = random.chance(0.3) ? random.between(1, 60) : random.between(1, 20000);
    const bool flips = protection != Protection::none && step < 10000 && random.chance(0.01);
    wires->pass_on(random.chance(0.5) ? 0 : 1, static_cast<std::size_t>(bytes),
                   flips ? &random : nullptr);
    if (one.sent < messages && random.chance(0.3)) one.send();
    if (random.chance(0.5)) (void)one.writer.flush();
    if (random.chance(0.5)) one.read(stream);
    if (one.damaged) attach();
    if (a.wrong || b.wrong) return false;
    if (step < 10000 && random.chance(0.03)) {
      a.writer.detach();
      b.writer.detach();
      if (random.chance(0.5)) a.send(), b.send();  // sent while there is no socket
      attach();
    }
  }
  return a.received >= messages && b.received >= messages;
}

}  // namespace

TEST(each_message_comes_once_over_connections_that_are_cut) {
  const auto only = test::argument(2);
  const std::uint64_t first = only.empty() ? 0 : std::stoull(only);
  const std::uint64_t last = only.empty() ? 180 : first + 1;
  for (std::uint64_t seed = first; seed < last; ++seed) {
    if (run(seed, static_cast<Protection>(seed % 3))) continue;
    test::record_failure(__FILE__, __LINE__,
                         "replay: test_fabric each_message_comes_once_over_"
                         "connections_that_are_cut " +
                             std::to_string(seed));
    return;
  }
}

TEST(bulk_that_waits_takes_no_room_and_is_copied_when_its_memory_goes) {
  auto sockets = joined();
  FrameWriter writer(true);
  writer.attach(sockets[0].get(), 0);
  constexpr std::size_t bulk_bytes = std::size_t{1} << 20;
  auto bulk = std::make_unique<std::vector<std::byte>>(bulk_bytes, std::byte{5});
  WireMessage message;
  message.header.type = MessageType::submitted;
  message.bulk = *bulk;
  // More bulk than a queue may hold by itself can be sent, because all of it lies in slots.
  for (int k = 0; k < 100; ++k) EXPECT(writer.send(message, true));
  EXPECT(writer.keep_bulk());
  std::fill(bulk->begin(), bulk->end(), std::byte{6});
  bulk.reset();
  FrameReader reader(false);
  std::vector<std::byte> placed;
  int came = 0;
  bool right = true;
  FrameReader::Handlers handlers;
  handlers.place = [&](const MessageHeader&, std::span<const std::byte>, std::int64_t offset,
                       std::int64_t left) { return room_in(placed, offset, left); };
  handlers.frame = [&](const FrameHeader&, std::span<const std::byte>, std::span<FileDescriptor>) {
    for (const std::byte one : placed) right &= one == std::byte{5};
    return ++came < 3;
  };
  for (int k = 0; k < 100000 && came < 3; ++k) {
    bool any = false;
    (void)reader.read(sockets[1].get(), handlers, any);
    (void)writer.flush();
  }
  EXPECT(came == 3);
  EXPECT(right);
}

TEST(bulk_that_stays_is_not_copied) {
  FrameWriter writer(true);
  const auto slot = std::make_shared<std::vector<std::byte>>(4096);
  WireMessage message;
  message.header = {MessageType::answered, 0, 0};
  message.bulk = *slot;
  message.owner = slot;
  message.bulk_stays = true;
  EXPECT(writer.send(message, true));
  EXPECT(writer.keep_bulk());
  EXPECT_EQ(slot.use_count(), 3);  // the owners: this function, the message, and the writer
  message.bulk_stays = false;
  EXPECT(writer.send(message, true));
  EXPECT_EQ(slot.use_count(), 4);
  EXPECT(writer.keep_bulk());
  EXPECT_EQ(slot.use_count(), 3);
}

TEST(a_message_with_any_bit_changed_is_never_delivered) {
  FrameWriter writer(true);
  writer.set_checksums(true);
  auto sockets = joined();
  writer.attach(sockets[0].get(), 0);
  const std::array<std::byte, 9> body{std::byte{1}, std::byte{200}};
  const std::array<std::byte, 17> bulk{std::byte{7}};
  WireMessage message;
  message.header = {MessageType::answered, 3, 8};
  message.body = body;
  message.bulk = std::span<const std::byte>(bulk);
  REQUIRE(writer.send(message, true));
  std::vector<std::byte> bytes(sizeof(FrameHeader) + body.size() + bulk.size());
  REQUIRE(recv(sockets[1].get(), bytes.data(), bytes.size(), 0) == std::ssize(bytes));
  int delivered = 0;
  for (std::size_t bit = 0; bit <= 8 * bytes.size(); ++bit) {  // the last round changes no bit
    auto changed = bytes;
    if (bit < 8 * bytes.size()) changed[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    auto ends = joined();
    REQUIRE(::send(ends[0].get(), changed.data(), changed.size(), 0) == std::ssize(changed));
    FrameReader reader(false);
    reader.set_checksums(true);
    std::array<std::byte, 17> place{};
    FrameReader::Handlers handlers;
    handlers.place = [&](const MessageHeader& header, std::span<const std::byte> named,
                         std::int64_t offset, std::int64_t) {
      // Bulk is placed only for an unchanged header and body.
      EXPECT(header.slot == 3 && std::equal(named.begin(), named.end(), body.begin(), body.end()));
      return ReceiveBuffer{std::span(place).subspan(static_cast<std::size_t>(offset))};
    };
    handlers.frame = [&](const FrameHeader&, std::span<const std::byte>,
                         std::span<FileDescriptor>) { return ++delivered > 0; };
    bool any = false;
    const auto outcome = reader.read(ends[1].get(), handlers, any);
    const bool whole = bit == 8 * bytes.size();
    EXPECT(outcome == (whole ? FrameReader::Outcome::drained : FrameReader::Outcome::damaged));
  }
  EXPECT_EQ(delivered, 1);
}
