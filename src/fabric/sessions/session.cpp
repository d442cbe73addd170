#include "fabric/sessions/session.hpp"

#include <fcntl.h>

namespace tranship::fabric {

Status Session::on_message(const MessageHeader& header, std::span<const std::byte> body,
                           std::span<FileDescriptor> descriptors) {
  switch (header.type) {
    case MessageType::hello:
    case MessageType::welcome:
    case MessageType::ready:
    case MessageType::accepted: return on_handshake(header.type, body, descriptors);
    case MessageType::goodbye: return Error{ErrorCode::closed, label() + " closed its engine"};
    default: return on_link_message(header, body, descriptors);
  }
}

Status Session::on_handshake(MessageType type, std::span<const std::byte> body,
                             std::span<FileDescriptor> descriptors) {
  const auto reply = handshake().on_message(type, body, descriptors);
  if (!reply) return reply.error();
  if (!*reply) return {};
  send(**reply);
  if (segment_.memory()) segment_.memory()->close_descriptor();
  return {};
}

Error Session::lost_by_wire(const Error& why) const {
  return {ErrorCode::peer_lost, label() + " was lost: " + why.message, why.hint};
}

/// The process's pidfd becomes readable when it exits, even if its children hold its sockets.
/// Without a pidfd, memory that the process may access would stay fenced forever.
Status Session::watch_process(const WirePeer& peer) {
  if (peer.pidfd < 0) return {};
  pidfd_ = FileDescriptor(fcntl(peer.pidfd, F_DUPFD_CLOEXEC, 0));
  if (!pidfd_) return no_descriptors();
  if (!parts_.events || parts_.events.add(pidfd_.get(), connection_)) return {};
  return no_descriptors();
}

void Session::send(MessageType type, std::uint64_t call, std::span<const std::byte> body,
                   std::span<const int> descriptors) {
  WireMessage message;
  message.header.type = type;
  message.header.call = call;
  message.body = body;
  message.descriptors = descriptors;
  parts_.wire->send(connection_, message);
}

void Session::send(const HandshakeMessage& message) {
  send(message.type, 0, message.body, message.descriptors);
}

void Session::say_goodbye() {
  said_goodbye_ = true;
  send(MessageType::goodbye, 0, {});
}

void Session::end(const Error& error) {
  lost_ = true;
  if (pidfd_ && parts_.events) parts_.events.remove(pidfd_.get());
  on_end(error);
  pidfd_.reset();
  parts_.wire->close(connection_);
}

}  // namespace tranship::fabric
