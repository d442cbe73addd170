// Connections over a network through a man in the middle, who reads, changes and cuts them.
#include "fabric/wires/tls_stream.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <atomic>

#include "fabric/helpers.hpp"
#include "fabric/wires/byte_stream.hpp"
#include "support/relay.hpp"

using namespace tranship;
using namespace tranship::fabric;
using namespace tranship::test;

namespace {

constexpr std::size_t array_bytes = 1 << 20;
constexpr Key other_key{std::byte{1}};

struct Sides {
  bool exporter_tls = false;
  bool requester_tls = false;
  bool exporter_checksum = false;
  bool requester_checksum = false;
};
constexpr Sides encrypted{true, true, false, false};

FabricOptions network_options(bool tls, bool checksum, const Key& key = known_key) {
  auto options = options_for(Transport::network);
  options.tls = tls;
  options.wire_checksum = checksum;
  options.key = key;
  options.reconnect = std::chrono::seconds(10);
  return options;
}

/// An exporter of "a", a requester, and a man in the middle.
struct Meeting {
  std::vector<std::byte> array = std::vector<std::byte>(array_bytes);
  std::unique_ptr<Fabric> exporter;
  std::unique_ptr<Relay> relay;
  std::unique_ptr<Fabric> requester;

  Meeting(Sides sides, Relay::Options between, const Key& requesters_key = known_key)
      : exporter(open_fabric(network_options(sides.exporter_tls, sides.exporter_checksum))) {
    const auto bytes = static_cast<std::int64_t>(array_bytes);
    REQUIRE(exporter->export_array({"a", "", {array.data(), nullptr}, bytes, true, nullptr}).ok());
    const std::string contact = exporter->contact();
    between.target = contact.substr(contact.find("tcp:") + 4);
    relay = std::make_unique<Relay>(std::move(between));
    requester =
        open_fabric(network_options(sides.requester_tls, sides.requester_checksum, requesters_key));
  }

  Result<PeerId> connect() { return requester->connect(relay->address(), patience); }

  /// Writes the array and reads it back `times` times; returns how often all bytes were right.
  int copies(int times) {
    const PeerId peer = connect_to(*requester, relay->address());
    const auto remote = look_up(*requester, peer, "a");
    RemoteChannel channel(*requester, {});
    const LoopNest all = run_of(static_cast<std::int64_t>(array_bytes));
    int right = 0;
    for (int k = 0; k < times; ++k) {
      auto data = pattern(array_bytes, static_cast<unsigned>(k + 2));
      std::vector<std::byte> back(array_bytes);
      const auto written = carry(channel, write_request({&all, 1}, data.data(), *remote));
      const auto read = carry(channel, read_request({&all, 1}, *remote, back.data()));
      for (const Status& status : {written, read}) {
        if (!status) record_failure(__FILE__, __LINE__, status.error().text());
      }
      right += written && read && array == data && back == data ? 1 : 0;
    }
    return right;
  }
};

bool says(const Error& error, const std::string& text) {
  return error.text().find(text) != std::string::npos;
}

std::vector<std::byte> marker() {
  const auto all = pattern(array_bytes, 2);
  return {all.begin() + 5000, all.begin() + 5032};
}

/// Two connected sockets with a TLS stream at each end.
struct Streams {
  std::array<FileDescriptor, 2> sockets;
  std::array<std::shared_ptr<TlsStream>, 2> ends;

  explicit Streams(std::uint64_t records_per_key, const Key& servers_key = known_key) {
    std::array<int, 2> numbers{-1, -1};
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, numbers.data()) == 0);
    for (std::size_t k = 0; k < 2; ++k) {
      sockets[k] = FileDescriptor(numbers[k]);
      const auto role = k == 0 ? TlsStream::Role::client : TlsStream::Role::server;
      const Key& key = k == 0 ? known_key : servers_key;
      auto made = TlsStream::make({numbers[k], role, key, records_per_key});
      REQUIRE(made.ok());
      ends[k] = *made;
    }
  }

  /// Runs the handshake; returns whether both ends complete it.
  bool shake_hands() {
    std::array<TlsStream::Step, 2> steps{TlsStream::Step::waits, TlsStream::Step::waits};
    for (int k = 0; k < 20; ++k) {
      auto& step = steps[static_cast<std::size_t>(k % 2)];
      if (step == TlsStream::Step::waits)
        step = ends[static_cast<std::size_t>(k % 2)]->shake_hands();
    }
    return steps[0] == TlsStream::Step::done && steps[1] == TlsStream::Step::done;
  }
};

ssize_t write_some(TlsStream& stream, std::span<const std::byte> data) {
  const iovec piece{const_cast<std::byte*>(data.data()), data.size()};
  return stream.write({&piece, 1});
}

ssize_t read_some(TlsStream& stream, std::span<std::byte> data) {
  const iovec piece{data.data(), data.size()};
  return stream.read({&piece, 1}, false);
}

}  // namespace

TEST(what_is_encrypted_cannot_be_read_on_the_way) {
  for (const Sides sides : {Sides{}, encrypted}) {
    Meeting meeting(sides, {.target = "", .marker = marker()});
    EXPECT_EQ(meeting.copies(1), 1);
    EXPECT_EQ(meeting.relay->saw_marker(), !sides.requester_tls);
  }
}

TEST(one_side_alone_does_not_encrypt_and_both_say_so) {
  Meeting open_door({false, true}, {});
  const auto refused = open_door.connect();
  REQUIRE(!refused);
  EXPECT(refused.error().code == ErrorCode::permission);
  EXPECT(says(refused.error(), "does not encrypt its connections"));
  EXPECT(says(refused.error(), "TRANSHIP_TLS=1 there"));
  Meeting closed_door({true, false}, {});
  const auto kept_out = closed_door.connect();
  REQUIRE(!kept_out);
  EXPECT(kept_out.error().code == ErrorCode::permission);
  EXPECT(says(kept_out.error(), "takes encrypted connections only"));
  EXPECT(says(kept_out.error(), "TRANSHIP_TLS=1 here"));
}

TEST(another_key_encrypts_nothing) {
  Meeting meeting(encrypted, {}, other_key);
  const auto refused = meeting.connect();
  REQUIRE(!refused);
  EXPECT(refused.error().code == ErrorCode::permission);
  EXPECT(says(refused.error(), "another key"));
  Streams streams(1 << 20, other_key);
  EXPECT(!streams.shake_hands());
}

TEST(strangers_at_an_encrypted_door_disturb_nobody) {
  Meeting meeting(encrypted, {});
  std::vector<FileDescriptor> strangers;
  for (int k = 0; k < 80; ++k) {
    strangers.push_back(connect_raw(meeting.relay->address()));
    const auto noise = pattern(static_cast<std::size_t>(k), 1);
    (void)send_all(strangers.back(), noise);
  }
  EXPECT_EQ(meeting.copies(1), 1);
}

TEST(a_changed_bit_is_never_taken_for_data) {
  const auto only = test::argument(2);
  const std::uint64_t first = only.empty() ? 0 : std::stoull(only);
  for (std::uint64_t seed = first; seed < first + 6; ++seed) {
    Relay::Options between;
    between.seed = seed;
    between.bytes_between_flips = 2'000'000;
    between.spared_bytes = 4096;  // spares the handshakes: the first handshake is not repeated
    Sides sides = encrypted;
    if (seed % 3 == 1) sides = {false, false, true, false};
    if (seed % 3 == 2) sides = {false, false, false, true};
    Meeting meeting(sides, between);
    EXPECT_EQ(meeting.copies(10), 10);
    EXPECT(meeting.relay->flips() > 2);
    EXPECT(meeting.relay->connections() > 1);
  }
}

TEST(changed_handshakes_end_in_an_error_or_are_tried_again) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Relay::Options between;
    between.seed = seed;
    between.bytes_between_flips = 150;
    between.flips_max = 1;
    const bool tls = seed % 2 == 0;
    Meeting meeting({tls, tls, true, true}, between);
    const auto peer = meeting.connect();
    if (peer) EXPECT_EQ(meeting.copies(1), 1);
    if (!peer) EXPECT(!peer.error().text().empty());
  }
}

TEST(encrypted_connections_that_are_cut_go_on) {
  Relay::Options between;
  between.bytes_between_cuts = 2'000'000;
  Meeting meeting(encrypted, between);
  EXPECT_EQ(meeting.copies(10), 10);
  EXPECT(meeting.relay->connections() > 3);
}

TEST(a_connection_that_damages_everything_is_given_up) {
  Relay::Options between;
  between.bytes_between_flips = 2000;
  between.spared_bytes = 2500;
  Meeting meeting({false, false, true, true}, between);
  const PeerId peer = connect_to(*meeting.requester, meeting.relay->address());
  const auto remote = look_up(*meeting.requester, peer, "a");
  RemoteChannel channel(*meeting.requester, {});
  auto data = pattern(array_bytes, 1);
  const LoopNest all = run_of(static_cast<std::int64_t>(array_bytes));
  const auto written = carry(channel, write_request({&all, 1}, data.data(), *remote));
  REQUIRE(!written);
  EXPECT(written.error().code == ErrorCode::peer_lost);
}

TEST(keys_are_renewed_while_both_sides_write) {
  Streams streams(3);
  REQUIRE(streams.shake_hands());
  const auto data = pattern(1 << 20, 9);
  Random random(4);
  std::array<std::size_t, 2> written{};
  std::array<std::vector<std::byte>, 2> came;
  while (came[0].size() < data.size() || came[1].size() < data.size()) {
    const auto k = static_cast<std::size_t>(random.below(2));
    const auto left = std::span(data).subspan(written[k]);
    const auto length = std::min(left.size(), static_cast<std::size_t>(random.between(1, 50000)));
    // After a write that took nothing, the next write begins with the same bytes.
    const ssize_t took = length > 0 ? write_some(*streams.ends[k], left.first(length)) : 0;
    if (took > 0) written[k] += static_cast<std::size_t>(took);
    std::array<std::byte, 30000> place{};
    const ssize_t got =
        read_some(*streams.ends[k],
                  std::span(place).first(static_cast<std::size_t>(random.between(1, 30000))));
    REQUIRE(took >= 0 || errno == EAGAIN || got > 0);
    if (got > 0) came[k].insert(came[k].end(), place.begin(), place.begin() + got);
  }
  EXPECT(came[0] == data && came[1] == data);
}

TEST(what_is_left_in_a_buffer_is_read_without_the_socket) {
  Streams streams(1 << 20);
  REQUIRE(streams.shake_hands());
  const auto data = pattern(60'000, 3);
  REQUIRE(write_some(*streams.ends[0], data) == 60'000);
  std::vector<std::byte> place(60'000);
  REQUIRE(read_some(*streams.ends[1], std::span(place).first(10)) == 10);
  iovec rest{place.data() + 10, place.size() - 10};
  msghdr message{};
  message.msg_iov = &rest;
  message.msg_iovlen = 1;
  const ByteStream stream(streams.sockets[1].get(), streams.ends[1]);
  REQUIRE(stream.receive(message, true) == 59'990);
  EXPECT(place == data);
  errno = 0;
  EXPECT(stream.receive(message, true) == -1 && errno == EAGAIN);
}

TEST(the_end_of_a_connection_is_the_end_of_its_stream) {
  Streams streams(1 << 20);
  REQUIRE(streams.shake_hands());
  const auto data = pattern(100, 3);
  REQUIRE(write_some(*streams.ends[0], data) == 100);
  streams.sockets[0].reset();
  std::vector<std::byte> place(200);
  EXPECT_EQ(read_some(*streams.ends[1], place), 100);
  EXPECT_EQ(read_some(*streams.ends[1], place), 0);
}
