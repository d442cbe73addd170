// Peers that break the protocol: each check of what they send has a case here that fails without
// it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "fabric/helpers.hpp"
#include "fabric/idle_wire.hpp"
#include "fabric/links/exports.hpp"
#include "fabric/links/fences.hpp"
#include "fabric/links/slot_messages.hpp"
#include "fabric/wires/frame_stream.hpp"
#include "fabric/wires/socket_wire.hpp"
#include "support/raw_peer.hpp"

using namespace tranship;
using namespace tranship::fabric;
using namespace tranship::test;

namespace {

/// A client without a proof is ended after 5 s in any case.
constexpr std::chrono::seconds unproven_most{3};
/// A client that has not greeted is ended after 10 s in any case.
constexpr std::chrono::seconds ungreeted_most{9};

/// The result of reading one frame.
struct Read {
  FrameReader::Outcome outcome = FrameReader::Outcome::drained;
  int frames = 0;
  std::int64_t placed = 0;
};

Read read_frame(const FrameHeader& header, bool has_place = true) {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  const FileDescriptor mine(ends[0]);
  const FileDescriptor theirs(ends[1]);
  std::vector<std::byte> bytes(sizeof header + 64);
  std::memcpy(bytes.data(), &header, sizeof header);
  REQUIRE(send_all(theirs, bytes));
  Read read;
  std::vector<std::byte> place(4096);
  FrameReader reader(true);
  FrameReader::Handlers handlers;
  handlers.place = [&](const MessageHeader&, std::span<const std::byte>, std::int64_t offset,
                       std::int64_t left) {
    read.placed = offset + left;
    const bool fits = has_place && offset + left <= std::ssize(place);
    return fits ? ReceiveBuffer{std::span(place).subspan(static_cast<std::size_t>(offset)), {}}
                : ReceiveBuffer{};
  };
  handlers.frame = [&](const FrameHeader&, std::span<const std::byte>, std::span<FileDescriptor>) {
    return ++read.frames < 0;  // stops at the first frame
  };
  bool any = false;
  read.outcome = reader.read(mine.get(), handlers, any);
  return read;
}

SlotSegment segment_of(SlotGeometry geometry) {
  return {*SharedMemory::allocate({SlotSegment::bytes(geometry), false, false}), geometry};
}

std::vector<std::byte> submitted_body(std::size_t command_bytes, std::size_t inside_bytes) {
  MessageWriter out;
  out.add(std::span<const std::byte>(std::vector<std::byte>(command_bytes)));
  out.add(std::span<const std::byte>(std::vector<std::byte>(inside_bytes)));
  return out.bytes();
}

std::vector<std::byte> answered_body(std::size_t text_bytes, std::size_t inside_bytes) {
  MessageWriter out;
  out.add(std::uint32_t{0}).add(std::uint32_t{0});
  out.add(std::span<const std::byte>(std::vector<std::byte>(text_bytes)));
  out.add(std::span<const std::byte>(std::vector<std::byte>(inside_bytes)));
  return out.bytes();
}

/// An exporter on the network, to which peers connect by hand.
struct Door {
  std::unique_ptr<Fabric> fabric;
  std::string address;

  Door() {
    auto options = options_for(Transport::network);
    options.key = known_key;
    fabric = open_fabric(std::move(options));
    const std::string contact = fabric->contact();
    address = contact.substr(contact.find("tcp:") + 4);
  }
};

const auto nothing = [] {};

/// A wire that keeps the message that it is given to send.
struct RecordingWire final : test::IdleWire {
  WireMessage sent;
  // the body of `sent`, copied because the caller's ends with the call
  std::vector<std::byte> body;

  void send(ConnectionId, const WireMessage& message) override {
    body.assign(message.body.begin(), message.body.end());
    sent = message;
    sent.body = body;
    sent.descriptors = {};
  }
};

void send_frame(const FileDescriptor& socket, MessageType type, std::uint64_t sequence,
                std::span<const std::byte> body = {}) {
  FrameHeader header;
  header.type = type;
  header.sequence = sequence;
  header.body_bytes = static_cast<std::uint32_t>(body.size());
  EXPECT(send_all(socket, bytes_of(header)) && send_all(socket, body));
}

std::vector<std::byte> hello_body(LinkMode mode) {
  Hello hello;
  hello.mode = mode;
  hello.greeting.version = "0.1.0";
  return encode(hello);
}

}  // namespace

TEST(frames_that_break_the_rules_are_refused) {
  using Outcome = FrameReader::Outcome;
  FrameHeader header;
  header.body_bytes = 64;
  EXPECT_EQ(read_frame(header).frames, 1);
  header.magic = 1;
  EXPECT(read_frame(header).outcome == Outcome::refused);
  header = {};
  header.body_bytes = static_cast<std::uint32_t>(body_bytes_max) + 1;
  EXPECT(read_frame(header).outcome == Outcome::refused);
  header = {};
  header.bulk_bytes = 64;
  EXPECT_EQ(read_frame(header).frames, 1);
  EXPECT(read_frame(header, false).outcome == Outcome::refused);
  header.bulk_bytes = std::uint32_t{1} << 31;
  EXPECT_EQ(read_frame(header).placed, 0);  // no memory is requested for so many bytes
  header = {};
  header.descriptors = 1;
  header.body_bytes = 64;
  EXPECT(read_frame(header).outcome == Outcome::refused);
}

TEST(more_descriptors_than_messages_may_bring_are_refused) {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  const FileDescriptor mine(ends[0]);
  FrameReader reader(true);
  FrameReader::Handlers handlers;
  const std::vector<int> numbers(4, ends[1]);
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int) * 4)> control{};
  auto outcome = FrameReader::Outcome::drained;
  for (int k = 0; k < 5 && outcome == FrameReader::Outcome::drained; ++k) {
    std::byte one{};
    iovec piece{&one, 1};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * 4);
    std::memcpy(CMSG_DATA(header), numbers.data(), sizeof(int) * 4);
    REQUIRE(sendmsg(ends[1], &message, 0) == 1);
    bool any = false;
    outcome = reader.read(mine.get(), handlers, any);
  }
  EXPECT(outcome == FrameReader::Outcome::refused);
  close(ends[1]);
}

TEST(what_nobody_reads_is_queued_up_to_a_limit) {
  FrameWriter writer(true);
  const std::vector<std::byte> body(body_bytes_max);
  WireMessage message;
  message.body = body;
  int queued = 0;
  while (queued < 100 && writer.send(message, false)) ++queued;
  EXPECT(queued >= 10 && queued <= 16);
}

TEST(slots_take_what_fits_and_only_when_it_is_due) {
  const SlotSegment segment = segment_of({2, 4096});
  const auto good = submitted_body(sizeof(CommandHeader), 10);
  EXPECT(!take_submitted(segment, 2, good));
  EXPECT(!take_submitted(segment, -1, good));
  EXPECT(!take_submitted(segment, 0, submitted_body(sizeof(CommandHeader) - 1, 0)));
  EXPECT(!take_submitted(segment, 0, submitted_body(command_bytes_max + 1, 0)));
  EXPECT(!take_submitted(segment, 0, submitted_body(sizeof(CommandHeader), 4097)));
  EXPECT(!take_answered(segment, 0, answered_body(0, 10)));  // there was no question
  EXPECT(!takes_bytes(segment, true, 0));
  EXPECT(takes_bytes(segment, false, 0));
  EXPECT(!takes_bytes(segment, false, 2));
  EXPECT(!takes_bytes(segment, false, -1));
  EXPECT_EQ(place_in_slot(segment, 0, 4095).size(), std::size_t{1});
  EXPECT(place_in_slot(segment, 0, 4097).data() == segment.data(0) + 1);
  EXPECT(take_submitted(segment, 0, good));
  EXPECT(!take_submitted(segment, 0, good));  // the command is being carried out
  EXPECT(!takes_bytes(segment, false, 0));
  EXPECT(!take_answered(segment, 0, answered_body(1025, 0)));
  EXPECT(!take_answered(segment, 0, answered_body(0, 4097)));
  EXPECT(take_answered(segment, 0, answered_body(10, 10)));
  EXPECT(!take_answered(segment, 0, answered_body(10, 10)));
}

TEST(an_old_id_leads_to_no_new_export) {
  ExportTable table;
  std::vector<std::byte> data(10);
  REQUIRE(table.add({"a", "", {data.data(), nullptr}, 10, true, nullptr}).ok());
  const auto id = table.find("a")->id();
  REQUIRE(table.remove("a") != nullptr);
  REQUIRE(table.add({"b", "", {data.data(), nullptr}, 10, true, nullptr}).ok());
  EXPECT((table.find("b")->id() & 0xffff) == (id & 0xffff));
  EXPECT(table.use(id) == nullptr);
}

TEST(memory_that_its_owner_could_shrink_is_not_mapped) {
  const int memory = memfd_create("unsealed", MFD_ALLOW_SEALING);
  REQUIRE(ftruncate(memory, 8192) == 0);
  EXPECT(!SharedMemory::map(FileDescriptor(memory), 4096).ok());
}

TEST(values_that_a_peer_makes_up_are_not_decoded) {
  Welcome welcome;
  REQUIRE(decode(encode(welcome), welcome));
  Welcome forged;
  forged.geometry.slots = 65;
  EXPECT(!decode(encode(forged), welcome));
  forged.geometry = {1, 4096 + 1};
  EXPECT(!decode(encode(forged), welcome));
  LookupReply reply;
  REQUIRE(decode(encode(LookupReply{}), reply));
  for (const int index : {-1, exports_max}) {
    LookupReply other;
    other.index = index;
    EXPECT(!decode(encode(other), reply));
  }
  LookupReply negative;
  negative.bytes = -1;
  EXPECT(!decode(encode(negative), reply));
  Hello hello;
  hello.greeting.magic = 1;
  EXPECT(!decode(encode(hello), hello));
  EXPECT(error_code_of(0xffffffff) == ErrorCode::closed);
}

TEST(a_proof_of_one_side_is_none_of_the_other) {
  ClientHello hello;
  const auto client = proof_of(known_key, ProvingSide::client, hello, ServerHello{});
  const auto server = proof_of(known_key, ProvingSide::server, hello, ServerHello{});
  REQUIRE(client.ok() && server.ok());
  EXPECT(!same_digest(*client, *server));
  EXPECT(same_digest(*client, *client));
  hello.nonce[5] = std::byte{1};
  EXPECT(!same_digest(*client, *proof_of(known_key, ProvingSide::client, hello, ServerHello{})));
  ClientProof claim;
  claim.received = 1;
  EXPECT(
      !same_digest(*client, *proof_of(known_key, ProvingSide::client, ClientHello{}, {}, claim)));
  ServerHello other;
  other.nonce[0] = std::byte{1};
  EXPECT(!same_digest(*client, *proof_of(known_key, ProvingSide::client, ClientHello{}, other)));
}

TEST(a_wrong_proof_opens_nothing) {
  Door door;
  ServerReady ready;
  const FileDescriptor bad = connect_raw(door.address);
  EXPECT(!prove(bad, Key{}, {}, ready, nothing));
  const FileDescriptor good = connect_raw(door.address);
  EXPECT(prove(good, known_key, {}, ready, nothing) && ready.status == 0);
}

TEST(a_listener_without_the_key_learns_no_proof) {
  std::string address;
  const FileDescriptor listener = listen_raw(address);
  bool proved = true;
  std::thread liar([&] {
    const FileDescriptor taken(accept(listener.get(), nullptr, nullptr));
    ClientHello hello;
    if (!receive(taken, hello, nothing)) return;
    (void)send_all(taken, bytes_of(ServerHello{}));
    ClientProof proof;
    proved = receive(taken, proof, nothing);
  });
  auto requester = open_fabric(options_for(Transport::network));
  const auto peer = requester->connect(address, patience);
  liar.join();
  REQUIRE(!peer);
  EXPECT(peer.error().code == ErrorCode::permission);
  EXPECT(!proved);
}

TEST(who_speaks_another_version_of_the_wire_is_answered_with_this_one) {
  Door door;
  EXPECT(succeeds_once([&] {
    const FileDescriptor socket = connect_raw(door.address);
    ClientHello hello;
    hello.version = wire_version_current - 1;
    ServerHello answer;
    REQUIRE(send_all(socket, bytes_of(hello)) && receive(socket, answer, nothing));
    EXPECT_EQ(answer.version, wire_version_current);
    EXPECT(same_digest(answer.proof, Digest{}));  // the answer proves nothing
    return ends_within(socket, unproven_most);
  }));
}

namespace {

/// Returns the client's error for a listener that proves that it has the key, and then sends
/// `ready`.
std::string refusal_of(const ServerReady& ready) {
  std::string address;
  const FileDescriptor listener = listen_raw(address);
  std::thread liar([&] {
    const FileDescriptor taken(accept(listener.get(), nullptr, nullptr));
    ClientHello hello;
    ClientProof proof;
    ServerHello answer;
    if (!receive(taken, hello, nothing)) return;
    answer.proof = *proof_of(known_key, ProvingSide::server, hello, answer);
    if (!send_all(taken, bytes_of(answer)) || !receive(taken, proof, nothing)) return;
    (void)send_all(taken, bytes_of(ready));
    (void)ends_within(taken, std::chrono::seconds(5));
  });
  auto options = options_for(Transport::network);
  options.key = known_key;
  auto requester = open_fabric(std::move(options));
  const auto peer = requester->connect(address, patience);
  liar.join();
  REQUIRE(!peer);
  return peer.error().text();
}

}  // namespace

TEST(changed_answers_end_the_handshake) {
  ServerReady changed;
  changed.session[0] = std::byte{1};
  changed.checksum = checksum_of(changed) ^ 4U;
  EXPECT(refusal_of(changed).find("changed on the way") != std::string::npos);
}

TEST(an_answer_without_a_session_ends_the_handshake) {
  ServerReady nameless;
  nameless.checksum = checksum_of(nameless);
  EXPECT(refusal_of(nameless).find("another session") != std::string::npos);
}

TEST(a_session_is_taken_up_by_who_has_its_token_alone) {
  Door door;
  const FileDescriptor first = connect_raw(door.address);
  ServerReady ready;
  REQUIRE(prove(first, known_key, {}, ready, nothing) && ready.status == 0);
  ServerReady stolen;
  SessionToken guess{};
  guess[3] = std::byte{1};
  const FileDescriptor thief = connect_raw(door.address);
  EXPECT(prove(thief, known_key, guess, stolen, nothing) && stolen.status == 1);
  const FileDescriptor again = connect_raw(door.address);
  EXPECT(prove(again, known_key, ready.session, stolen, nothing) && stolen.status == 0);
  EXPECT(ends_within(first, ungreeted_most));
}

TEST(bulk_sockets_are_those_of_a_session_and_no_more_than_it_may_have) {
  Door door;
  ServerReady ready;
  SessionToken guess{};
  guess[3] = std::byte{1};
  EXPECT(succeeds_once([&] {
    const FileDescriptor stranger = connect_raw(door.address);
    EXPECT(prove(stranger, known_key, {}, ready, nothing, guess) && ready.status == 1);
    return ends_within(stranger, unproven_most);
  }));
  ServerReady session;
  const FileDescriptor first = connect_raw(door.address);
  REQUIRE(prove(first, known_key, {}, session, nothing) && session.status == 0);
  std::vector<FileDescriptor> sockets;
  for (int k = 1; k < SocketWire::sockets_max; ++k) {
    sockets.push_back(connect_raw(door.address));
    REQUIRE(prove(sockets.back(), known_key, {}, ready, nothing, session.session));
    EXPECT_EQ(ready.status, 0U);
  }
  ServerReady nested;
  const FileDescriptor of_another = connect_raw(door.address);
  EXPECT(prove(of_another, known_key, {}, nested, nothing, ready.session) && nested.status == 1);
  const FileDescriptor further = connect_raw(door.address);
  EXPECT(prove(further, known_key, {}, ready, nothing, session.session) && ready.status == 1);
  // The further sockets of a session end with the session.
  send_frame(first, MessageType::names, 7);
  for (const FileDescriptor& socket : sockets) {
    EXPECT(ends_within(socket, ungreeted_most));
  }
}

TEST(a_bulk_socket_that_breaks_the_rules_ends_its_session_alone) {
  Door door;
  ServerReady session;
  ServerReady ready;
  const FileDescriptor bystander = connect_raw(door.address);
  REQUIRE(prove(bystander, known_key, {}, ready, nothing));
  const FileDescriptor first = connect_raw(door.address);
  REQUIRE(prove(first, known_key, {}, session, nothing));
  const FileDescriptor bulk = connect_raw(door.address);
  REQUIRE(prove(bulk, known_key, {}, ready, nothing, session.session));
  send_frame(bulk, MessageType::submitted, 3);
  EXPECT(ends_within(first, ungreeted_most));
  EXPECT(ends_within(bulk, ungreeted_most));
  EXPECT(!ends_within(bystander, std::chrono::milliseconds(50)));
}

TEST(messages_out_of_order_end_a_connection) {
  Door door;
  for (const std::uint64_t sequence : {std::uint64_t{3}, std::uint64_t{1}, std::uint64_t{0}}) {
    const FileDescriptor socket = connect_raw(door.address);
    ServerReady ready;
    REQUIRE(prove(socket, known_key, {}, ready, nothing));
    send_frame(socket, MessageType::hello, 1, hello_body(LinkMode::network));
    send_frame(socket, MessageType::names, sequence);
    EXPECT(ends_within(socket, patience));
  }
}

TEST(nobody_is_answered_before_the_greeting_and_none_greets_twice) {
  Door door;
  std::vector<std::byte> data(100);
  REQUIRE(door.fabric->export_array({"a", "", {data.data(), nullptr}, 100, true, nullptr}).ok());
  ServerReady ready;
  const FileDescriptor early = connect_raw(door.address);
  REQUIRE(prove(early, known_key, {}, ready, nothing));
  send_frame(early, MessageType::lookup, 1, encode_text("a"));
  pollfd entry{early.get(), POLLIN, 0};
  EXPECT_EQ(poll(&entry, 1, 300), 0);
  const FileDescriptor twice = connect_raw(door.address);
  REQUIRE(prove(twice, known_key, {}, ready, nothing));
  send_frame(twice, MessageType::hello, 1, hello_body(LinkMode::network));
  send_frame(twice, MessageType::hello, 2, hello_body(LinkMode::network));
  EXPECT(ends_within(twice, patience));
  const FileDescriptor otherwise = connect_raw(door.address);
  REQUIRE(prove(otherwise, known_key, {}, ready, nothing));
  send_frame(otherwise, MessageType::hello, 1, hello_body(LinkMode::network));
  send_frame(otherwise, MessageType::ready, 2, encode(Ready{LinkMode::shared}));
  EXPECT(ends_within(otherwise, patience));
}

TEST(a_local_greeting_without_its_bell_is_refused_alone) {
  auto fabric = open_fabric(options_for(Transport::automatic));
  const std::string contact = fabric->contact();
  const FileDescriptor socket = connect_raw_locally(contact.substr(std::strlen("unix:@")));
  send_frame(socket, MessageType::hello, 0, hello_body(LinkMode::shared));
  FrameHeader header;
  REQUIRE(receive(socket, header, nothing));
  std::vector<std::byte> body(header.body_bytes);
  EXPECT(recv(socket.get(), body.data(), body.size(), MSG_WAITALL) == std::ssize(body));
  Welcome welcome;
  REQUIRE(decode(body, welcome));
  EXPECT(welcome.error.has_value());
  auto other = open_fabric(options_for(Transport::automatic));
  connect_to(*other, contact);
}

TEST(strangers_who_say_nothing_make_room_for_others) {
  EXPECT(succeeds_once([] {
    Door door;
    std::vector<FileDescriptor> strangers;
    for (int k = 0; k < 80; ++k) strangers.push_back(connect_raw(door.address));
    return ends_within(strangers.front(), unproven_most);
  }));
}

TEST(other_users_of_the_machine_stay_out) {
  if (geteuid() != 0) return;  // acting as other users needs root
  auto fabric = open_fabric(options_for(Transport::automatic));
  const std::string contact = fabric->contact();
  const std::string name = contact.substr(std::strlen("unix:@"));
  const pid_t child = fork();
  if (child == 0) {
    if (setuid(65534) != 0) _exit(3);
    const FileDescriptor socket = connect_raw_locally(name);
    send_frame(socket, MessageType::hello, 0, hello_body(LinkMode::shared));
    char byte = 0;
    pollfd entry{socket.get(), POLLIN, 0};
    const bool out = poll(&entry, 1, 60'000) == 1 && recv(socket.get(), &byte, 1, 0) <= 0;
    _exit(out ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(listeners_of_other_users_are_not_trusted) {
  if (geteuid() != 0) return;
  const std::string name = "tranship-test-" + std::to_string(getpid());
  const pid_t child = fork();
  if (child == 0) {
    if (setuid(65534) != 0) _exit(3);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    (void)bind(listener, reinterpret_cast<sockaddr*>(&address), length);
    (void)listen(listener, 4);
    sleep(120);  // until it is killed
    _exit(0);
  }
  auto requester = open_fabric(options_for(Transport::automatic));
  auto peer = requester->connect("unix:@" + name, patience);
  EXPECT(eventually([&] {  // until the child listens
    if (peer || peer.error().code != ErrorCode::peer_lost) return true;
    peer = requester->connect("unix:@" + name, patience);
    return false;
  }));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  REQUIRE(!peer);
  EXPECT(peer.error().code == ErrorCode::permission);
}

TEST(a_lost_peer_keeps_its_fence_until_its_copies_have_ended) {
  const SlotSegment segment = segment_of({1, 4096});
  ExportLease& lease = segment.header().leases[3];
  int gone = 0;
  int served = 0;
  Fences fences([&](RequesterId, bool) { ++served; }, [&](RequesterId, bool) { ++gone; });
  LeaseGrants grants(segment);
  grants.grant(3, 77);
  EXPECT_EQ(lease.export_id.load(), std::uint64_t{77});
  lease.users.store(1);
  fences.raise({RequesterId{1}, false, std::move(grants), nullptr, {}, "a peer"});
  EXPECT_EQ(lease.export_id.load(), std::uint64_t{0});  // no new copy may begin
  EXPECT(fences.in_use(3) && !fences.in_use(4));
  fences.lift();
  EXPECT_EQ(gone, 0);
  EXPECT_EQ(served, 1);
  lease.users.store(0);
  fences.lift();
  EXPECT_EQ(gone, 1);
  EXPECT(fences.empty());
  fences.raise({RequesterId{2}, false, LeaseGrants(segment), nullptr, {}, "a peer without copies"});
  EXPECT_EQ(gone, 2);
  EXPECT(fences.empty());
}

TEST(what_is_sent_keeps_the_memory_that_it_lies_in) {
  RecordingWire wire;
  std::weak_ptr<SharedMemory> memory;
  auto writer = std::make_unique<FrameWriter>(true);
  {
    const SlotSegment segment = segment_of({1, 65536});
    memory = segment.memory();
    send_answered(wire, 1, segment, 0, {65536});
    EXPECT_EQ(wire.sent.bulk.size(), 65536U);
    EXPECT(writer->send(wire.sent, false));
    send_submitted(wire, 1, segment, 0, sizeof(CommandHeader), {65536});
    EXPECT(wire.sent.owner == segment.memory());
    wire.sent = {};
  }
  EXPECT(!memory.expired());
  writer.reset();
  EXPECT(memory.expired());
}

namespace {

/// Closes a session by a goodbye, with answers under way, and asks soon afterwards to take it up;
/// returns whether that was refused.
bool closed_session_is_refused(const Door& door) {
  ServerReady ready;
  const FileDescriptor socket = connect_raw(door.address);
  REQUIRE(prove(socket, known_key, {}, ready, nothing));
  send_frame(socket, MessageType::hello, 1, hello_body(LinkMode::network));
  // The answers are larger than the socket buffers, so that the connection lingers.
  std::uint64_t sequence = 1;
  for (int k = 0; k < 150; ++k) send_frame(socket, MessageType::names, ++sequence);
  send_frame(socket, MessageType::goodbye, ++sequence);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ServerReady again;
  const FileDescriptor other = connect_raw(door.address);
  return prove(other, known_key, ready.session, again, nothing) && again.status == 1;
}

}  // namespace

TEST(a_session_that_was_closed_is_not_taken_up_again) {
  Door door;
  std::vector<std::byte> data(100);
  for (int k = 0; k < 200; ++k) {
    const std::string name = std::string(1000, 'n') + std::to_string(k);
    REQUIRE(door.fabric->export_array({name, "", {data.data(), nullptr}, 100, true, nullptr}).ok());
  }
  // On a busy machine the goodbye may not have been read yet.
  EXPECT(succeeds_once([&] { return closed_session_is_refused(door); }));
}

TEST(words_of_a_peer_are_made_fit_to_be_shown) {
  Welcome welcome;
  welcome.error = Error{ErrorCode::out_of_memory, "no\x1b[2Jroom", "ask \x1b[2Jlater"};
  welcome.greeting.version = std::string(5000, 'v');
  welcome.identity.host = "\xff\xfe";
  Welcome read;
  REQUIRE(decode(encode(welcome), read));
  REQUIRE(read.error.has_value());
  EXPECT(read.error->text().find('\x1b') == std::string::npos);
  EXPECT(read.greeting.version.size() < 300);
  EXPECT(read.identity.host.find('\xff') == std::string::npos);
  welcome.error = Error{ErrorCode::out_of_memory, "plain words", "a hint"};
  REQUIRE(decode(encode(welcome), read));
  REQUIRE(read.error.has_value());
  EXPECT_EQ(read.error->message, std::string("plain words"));
  EXPECT_EQ(read.error->hint, std::string("a hint"));
}
