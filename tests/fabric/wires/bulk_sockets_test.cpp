// The way that a message takes over the sockets of a connection.
#include "fabric/wires/bulk_sockets.hpp"

#include <array>

#include "fabric/wires/socket_connection.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::fabric;

namespace {

EventSet no_events;

std::shared_ptr<SocketConnection> new_socket() {
  return std::make_shared<SocketConnection>(false, no_events);
}

WireMessage message_of(MessageType type, std::uint32_t slot, std::span<const std::byte> bulk) {
  WireMessage message;
  message.header.type = type;
  message.header.slot = slot;
  message.bulk = GatheredBytes(bulk);
  return message;
}

}  // namespace

TEST(messages_with_bulk_go_over_the_socket_with_the_least_to_write) {
  const std::array<std::byte, 100> bytes{};
  const auto long_message = message_of(MessageType::submitted, 0, bytes);
  BulkSockets sockets;
  const auto one = new_socket();
  const auto other = new_socket();
  sockets.begin_to_join(one);
  EXPECT(sockets.joining() && !sockets.has_joined(one));
  EXPECT(sockets.way_of(long_message) == nullptr);
  sockets.join(one);
  sockets.join(one);  // has no effect
  sockets.join(other);
  EXPECT_EQ(sockets.all().size(), std::size_t{2});
  EXPECT(!sockets.joining() && sockets.has_joined(one));
  EXPECT(sockets.way_of(message_of(MessageType::submitted, 0, {})) == nullptr);
  EXPECT(one->writer.send(long_message, false));
  EXPECT(sockets.way_of(long_message) == other);
  other->phase = SocketConnection::Phase::detached;
  EXPECT(sockets.way_of(long_message) == one);
}

TEST(an_answer_goes_over_the_socket_that_brought_its_question) {
  BulkSockets sockets;
  const auto socket = new_socket();
  sockets.join(socket);
  sockets.note(3, socket);
  sockets.note(4, socket);
  sockets.note(4, nullptr);
  EXPECT(sockets.way_of(message_of(MessageType::lookup_reply, 3, {})) == nullptr);
  EXPECT(sockets.way_of(message_of(MessageType::answered, 4, {})) == nullptr);
  EXPECT(sockets.way_of(message_of(MessageType::answered, 3, {})) == socket);
  EXPECT(sockets.way_of(message_of(MessageType::answered, 3, {})) == nullptr);  // answered
}

TEST(a_socket_that_has_not_joined_can_be_given_up) {
  BulkSockets sockets;
  const auto socket = new_socket();
  sockets.begin_to_join(socket);
  sockets.give_up(socket);
  EXPECT(!sockets.joining() && sockets.all().empty());
}
