#include "fabric/sessions/requester_session.hpp"

#include "fabric/links/slot_messages.hpp"

namespace tranship::fabric {

RequesterSession::RequesterSession(SessionParts& parts, ConnectionId connection,
                                   const WirePeer& peer, const Contact& contact,
                                   const std::string& text, Connected connected)
    : Session(parts, connection, peer.local ? LinkMode::shared : LinkMode::network),
      handshake_(
          parts.terms, {text, contact.identity, peer.local, peer.pid},
          [this](RequesterHandshake::Agreement agreement) { add_link(std::move(agreement)); }),
      connected_(std::move(connected)) {}

Status RequesterSession::start(const WirePeer& peer) {
  if (peer.address.empty()) {
    return Error{ErrorCode::peer_lost, "cannot connect to " + label() + ": it was lost",
                 "check that the process there runs"};
  }
  if (Status status = watch_process(peer); !status) return status;
  send(handshake_.hello());
  return {};
}

void RequesterSession::add_link(RequesterHandshake::Agreement agreement) {
  segment_ = agreement.segment;
  link_ = std::make_shared<Link>();
  link_->requester = make_requester(agreement);
  link_->label = std::move(agreement.label);
  link_->way = std::move(agreement.way);
  link_->identity = std::move(agreement.identity);
  link_->mode = agreement.mode;
  link_->direct = agreement.direct_pid != 0;
  link_->carrier = std::move(agreement.carrier);
  link_->copy = parts_.options.copy;
  link_->bell_memory = parts_.bell.memory();
  parts_.links.add(link_);
  connected_->set_value(link_->peer);
  connected_.reset();
}

std::shared_ptr<Requester> RequesterSession::make_requester(
    const RequesterHandshake::Agreement& agreement) const {
  Requester::Options options;
  options.segment = agreement.segment;
  options.copy = parts_.options.copy;
  options.peer = agreement.label;
  options.leases = agreement.mode == LinkMode::shared;
  options.direct_pid = agreement.direct_pid;
  if (agreement.mode == LinkMode::shared) {
    options.publish = [seat = agreement.seat](int, std::size_t, const SlotBytes&) { seat.ring(); };
  } else {
    options.publish = [wire = parts_.wire, segment = agreement.segment, connection = connection_](
                          int slot, std::size_t command_bytes, const SlotBytes& bytes) {
      send_submitted(*wire, connection, segment, slot, command_bytes, bytes);
    };
    options.attend = parts_.attend;
    options.keep_bulk = [wire = parts_.wire, connection = connection_] {
      wire->keep_bulk(connection);
    };
  }
  return std::make_shared<Requester>(std::move(options));
}

Status RequesterSession::on_link_message(const MessageHeader& header,
                                         std::span<const std::byte> body,
                                         std::span<FileDescriptor> descriptors) {
  if (!link_) return {};
  switch (header.type) {
    case MessageType::answered: return on_answered(header, body);
    case MessageType::withdrawn: link_->withdraw(MessageReader(body).get<std::uint64_t>()); break;
    case MessageType::notice:
      if (parts_.options.on_notice) parts_.options.on_notice(link_->peer, body);
      break;
    case MessageType::lookup_reply:
    case MessageType::names_reply: on_reply(header.call, body, descriptors); break;
    default: break;
  }
  return {};
}

Status RequesterSession::on_answered(const MessageHeader& header, std::span<const std::byte> body) {
  if (!names_slot(header) || !take_answered(segment_, static_cast<int>(header.slot), body)) {
    return Error{ErrorCode::peer_lost, label() + " breaks the protocol"};
  }
  parts_.bell.ring();
  return {};
}

void RequesterSession::on_reply(std::uint64_t call, std::span<const std::byte> body,
                                std::span<FileDescriptor> descriptors) {
  const auto found = calls_.find(call);
  if (found == calls_.end()) return;
  Answer answer{{body.begin(), body.end()}, {}};
  if (!descriptors.empty()) answer.memory = std::move(descriptors[0]);
  found->second->set_value(std::move(answer));
  calls_.erase(found);
}

ReceiveBuffer RequesterSession::place(const MessageHeader& header, std::span<const std::byte>,
                                      std::int64_t offset, std::int64_t left) const {
  if (!link_ || header.type != MessageType::answered || !names_slot(header)) return {};
  return link_->requester->place(static_cast<int>(header.slot), offset, left);
}

Status RequesterSession::tick(TimePoint) {
  if (link_ && link_->requester->unattended()) (void)link_->requester->progress();
  return {};
}

Error RequesterSession::lost_by_wire(const Error& why) const {
  if (!connecting()) return Session::lost_by_wire(why);
  const bool known = why.code != ErrorCode::peer_lost;
  return {why.code, "cannot connect to " + label() + ": " + why.message,
          known ? why.hint : "check the address, and that the process there runs"};
}

void RequesterSession::call(MessageType type, std::uint64_t id, std::span<const std::byte> body,
                            std::shared_ptr<std::promise<Reply>> promise) {
  calls_[id] = std::move(promise);
  send(type, id, body);
}

void RequesterSession::leave(TimePoint leaves_by, std::shared_ptr<std::promise<bool>> left) {
  leaves_by_ = leaves_by;
  left_ = std::move(left);
}

void RequesterSession::on_end(const Error& error) {
  if (left_) left_->set_value(true);
  if (connected_) connected_->set_value(error);
  connected_.reset();
  if (link_) link_->fail(error);
  for (const auto& [id, promise] : calls_) promise->set_value(error);
  calls_.clear();
  if (link_ && parts_.options.on_peer_lost) parts_.options.on_peer_lost(link_->peer, error);
}

}  // namespace tranship::fabric
