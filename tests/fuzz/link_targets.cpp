// The socket of an exporter from its first byte on, and links after a completed handshake.
#include <sys/socket.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "channels/host/copy.hpp"
#include "channels/host/runs.hpp"
#include "fabric/fabric.hpp"
#include "fabric/wires/socket_wire.hpp"
#include "fuzz/targets.hpp"
#include "support/raw_peer.hpp"

namespace tranship::fuzz {

using namespace fabric;
namespace {

using namespace tranship::test;

/// Returns a frame from the input: a few bytes choose its header, then come its body and bulk.
/// Sometimes the input gives a field of the header as it is.
std::vector<std::byte> next_frame(Source& source, std::uint64_t& sequence) {
  FrameHeader header;
  const unsigned kind = source.byte();
  header.type = static_cast<MessageType>(kind % 16);
  header.slot = source.byte() % 10;
  header.call = 1;
  header.sequence = ++sequence;
  header.body_bytes = source.get<std::uint16_t>() % 1024;
  if (kind / 16 == 1) header.bulk_bytes = source.get<std::uint16_t>();
  if (kind / 16 == 2) header.sequence = source.get<std::uint64_t>();
  if (kind / 16 == 3) header.acknowledged = source.get<std::uint64_t>();
  if (kind / 16 == 4) header.body_bytes = source.get<std::uint32_t>();
  if (kind / 16 == 5) header.bulk_bytes = source.get<std::uint32_t>();
  if (kind / 16 == 6) header.slot = source.get<std::uint32_t>();
  if (kind / 16 == 7) header.magic = source.get<std::uint32_t>();
  if (kind / 16 == 8) header.descriptors = source.byte();
  std::vector<std::byte> frame(sizeof header);
  std::memcpy(frame.data(), &header, sizeof header);
  const auto body = source.take(std::min<std::size_t>(header.body_bytes, 4096));
  const auto bulk =
      source.take(static_cast<std::size_t>(std::min<std::uint64_t>(header.bulk_bytes, 64 * 1024)));
  frame.insert(frame.end(), body.begin(), body.end());
  frame.insert(frame.end(), bulk.begin(), bulk.end());
  return frame;
}

/// A wire that listens on the network, driven by the test's thread.
struct Listener {
  std::vector<std::byte> place = std::vector<std::byte>(32 * 1024);
  std::size_t arrived = 0;
  std::size_t lost = 0;
  std::unique_ptr<SocketWire> wire;

  explicit Listener(bool tls) {
    SocketWire::Options options;
    options.tls = tls;
    options.listen = "127.0.0.1:0";
    options.key = known_key;
    options.reconnect = std::chrono::milliseconds(1);
    options.handlers.arrived = [this](ConnectionId) { ++arrived; };
    options.handlers.message = [this](ConnectionId, const MessageHeader&,
                                      std::span<const std::byte> body, std::span<FileDescriptor>) {
      CHECK(arrived > 0, "a message of somebody who has proved nothing");
      CHECK(body.size() <= body_bytes_max, "a body that is too long");
    };
    options.handlers.place = [this](ConnectionId, const MessageHeader&, std::span<const std::byte>,
                                    std::int64_t offset, std::int64_t left) -> ReceiveBuffer {
      const auto bytes = static_cast<std::size_t>(offset + left);
      if (bytes > std::size(place)) return {};
      return {std::span(place).first(bytes).subspan(static_cast<std::size_t>(offset)), {}};
    };
    options.handlers.lost = [this](ConnectionId, const Error&) { ++lost; };
    auto opened = SocketWire::open(std::move(options));
    CHECK(opened.ok(), "a wire on the loopback");
    wire = std::move(*opened);
  }
};

}  // namespace

/// Feeds a listener. The first byte says whether the peer proves that it has the key before it
/// sends the rest, and whether the listener wants encryption, which no peer here can offer.
void run_socket(std::span<const std::byte> input) {
  static Listener in_the_clear(false);
  static Listener encrypted(true);
  Source source(input);
  const unsigned kind = source.byte();
  Listener& listener = kind % 16 == 8 ? encrypted : in_the_clear;
  const auto progress = [&] { (void)listener.wire->progress(); };
  const std::size_t before = listener.arrived;
  const FileDescriptor socket = connect_raw(listener.wire->contact().network);
  const bool proves = kind % 2 == 1;
  SessionToken session{};
  if (kind % 8 == 5) session[0] = std::byte{1};
  ServerReady ready;
  if (proves && (!prove(socket, known_key, session, ready, progress) || ready.status != 0)) return;
  std::uint64_t sequence = 0;
  while (!source.empty()) {
    const bool raw = !proves || source.byte() % 8 == 7;
    const std::vector<std::byte> frame =
        raw ? std::vector<std::byte>{} : next_frame(source, sequence);
    if (!send_all(socket, raw ? source.take(1 + source.byte()) : std::span(frame))) break;
    progress();
    std::array<std::byte, 4096> dropped{};
    (void)recv(socket.get(), dropped.data(), dropped.size(), MSG_DONTWAIT);
  }
  progress();
  progress();
  CHECK(proves || listener.arrived == before, "somebody without the key came in");
}

namespace {

/// An exporter with its threads.
struct Exporter {
  std::vector<std::byte> array = std::vector<std::byte>(5000);
  std::vector<std::byte> readonly = std::vector<std::byte>(5000);
  std::unique_ptr<Fabric> fabric;
  std::string local;
  std::string network;

  Exporter() {
    FabricOptions options;
    options.listen = "127.0.0.1:0";
    options.key = known_key;
    options.copy = {copy_nests, copy_runs};
    options.slots_per_peer = 2;
    options.slot_bytes = 4096;
    options.reconnect = std::chrono::milliseconds(1);
    options.answer = [](RequesterId, std::span<const std::byte> question,
                        std::span<std::byte> reply) -> Result<std::size_t> {
      const std::size_t length = std::min(question.size(), reply.size());
      if (length > 0) std::memmove(reply.data(), question.data(), length);
      return length;
    };
    options.take_notice = [](const CopyNotice& notice) -> Status {
      CHECK(check_notice_name(notice.name).ok(), "a notice with a name that no call gives");
      return {};
    };
    auto opened = Fabric::open(std::move(options));
    CHECK(opened.ok(), "a fabric");
    fabric = std::move(*opened);
    const std::string contact = fabric->contact();
    local = contact.substr(6, contact.find(',') - 6);
    network = contact.substr(contact.find("tcp:") + 4);
    constexpr std::int64_t bytes = 5000;
    ExportedArray noticed{"w", "it", {array.data(), nullptr}, bytes, true, nullptr};
    noticed.takes_notices = true;
    (void)fabric->export_array(std::move(noticed));
    (void)fabric->export_array({"r", "", {readonly.data(), nullptr}, bytes, false, nullptr});
  }
};

/// Sends bytes with `count` copies of a descriptor.
bool send_with(const FileDescriptor& socket, std::span<const std::byte> bytes, int descriptor,
               std::size_t count) {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int) * 8)> control{};
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (count > 0) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * count);
    const std::vector<int> numbers(count, descriptor);
    std::memcpy(CMSG_DATA(header), numbers.data(), sizeof(int) * count);
  }
  return sendmsg(socket.get(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

std::vector<std::byte> greeting_frame(LinkMode mode) {
  Hello hello;
  hello.mode = mode;
  hello.greeting.version = "0.1.0";
  const auto body = encode(hello);
  FrameHeader header;
  header.sequence = 1;
  header.descriptors = mode == LinkMode::shared ? 1 : 0;
  header.body_bytes = static_cast<std::uint32_t>(body.size());
  std::vector<std::byte> frame(sizeof header + body.size());
  std::memcpy(frame.data(), &header, sizeof header);
  std::memcpy(frame.data() + sizeof header, body.data(), body.size());
  return frame;
}

}  // namespace

/// Feeds a link. The first byte chooses the local socket or the network, and whether a greeting
/// comes first. At the end comes data that must end the connection, so that all before it has been
/// read.
void run_link(std::span<const std::byte> input) {
  static Exporter exporter;
  static const auto bell = *SharedMemory::allocate({4096, false, false});
  Source source(input);
  const unsigned kind = source.byte();
  const bool is_local = kind % 2 == 0;
  const FileDescriptor socket =
      is_local ? connect_raw_locally(exporter.local) : connect_raw(exporter.network);
  const auto nothing = [] {};
  ServerReady ready;
  if (!is_local && !prove(socket, known_key, {}, ready, nothing)) return;
  std::uint64_t sequence = 0;
  bool open = true;
  if (kind % 4 < 3) {
    const auto frame = greeting_frame(is_local ? LinkMode::shared : LinkMode::network);
    open = send_with(socket, frame, bell->descriptor(), is_local ? 1 : 0);
    ++sequence;
  }
  while (open && !source.empty()) {
    const unsigned descriptors = source.byte();
    const std::vector<std::byte> frame = next_frame(source, sequence);
    const bool some = is_local && descriptors / 16 == 1;
    open = send_with(socket, frame, bell->descriptor(), some ? descriptors % 8 : 0);
    std::array<std::byte, 4096> dropped{};
    (void)recv(socket.get(), dropped.data(), dropped.size(), MSG_DONTWAIT);
  }
  const std::vector<std::byte> end(128 * 1024);  // ends a begun frame, and is no frame itself
  (void)send(socket.get(), end.data(), end.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  (void)shutdown(socket.get(), SHUT_WR);
  std::array<std::byte, 16 * 1024> dropped{};
  while (recv(socket.get(), dropped.data(), dropped.size(), 0) > 0) continue;
  for (const std::byte value : exporter.readonly) {
    CHECK(value == std::byte{}, "an array that nobody may write");
  }
}

}  // namespace tranship::fuzz
