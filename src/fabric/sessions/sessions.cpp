// Connections that become links: messages of the handshakes, and the resulting links.
#include "fabric/links/slot_messages.hpp"
#include "fabric/sessions/core.hpp"

namespace tranship::fabric {

void FabricCore::set_terms() {
  terms_.greeting.protocol = options_.protocol;
  terms_.greeting.version = options_.version;
  terms_.identity = seams_.identity();
  terms_.geometry = geometry();
  terms_.bell_descriptor = bell_memory_->descriptor();
  terms_.carrier = options_.carrier;
  terms_.no_carrier = options_.no_carrier;
  terms_.network_allowed = options_.transport != FabricOptions::Transport::shared;
}

void FabricCore::begin_connect(ConnectionId connection, const Contact& contact,
                               const std::string& text,
                               std::shared_ptr<std::promise<Result<PeerId>>> promise) {
  const WirePeer peer = wire_->peer(connection);
  auto made = std::make_unique<Session>();
  Session& session = *made;
  session.connection = connection;
  session.client = true;
  session.connecting = std::move(promise);
  session.mode = peer.local ? LinkMode::shared : LinkMode::network;
  session.began = now();
  auto handshake = std::make_unique<RequesterHandshake>(
      terms_, RequesterHandshake::Options{text, contact.identity, peer.local, peer.pid},
      [this, &session](RequesterHandshake::Agreement agreement) {
        add_link(session, std::move(agreement));
      });
  session.label = handshake->label();
  const HandshakeMessage hello = handshake->hello();
  session.handshake = std::move(handshake);
  sessions_[connection] = std::move(made);
  if (phase_ != Phase::open) {
    return lose(session, {ErrorCode::closed, "this engine was closed"});
  }
  if (peer.address.empty()) {
    return lose(session,
                {ErrorCode::peer_lost, "cannot connect to " + session.label + ": it was lost",
                 "check that the process there runs"});
  }
  if (Status status = watch_process(session, peer); !status) return lose(session, status.error());
  send(session, hello);
}

void FabricCore::on_arrived(ConnectionId connection) {
  constexpr std::size_t refusals_max = 64;
  const auto most = static_cast<std::size_t>(options_.peers_max);
  if (sessions_.size() >= most + refusals_max || phase_ != Phase::open) {
    wire_->close(connection);
    return;
  }
  auto made = std::make_unique<Session>();
  Session& session = *made;
  session.connection = connection;
  session.began = now();
  session.mode = wire_->peer(connection).local ? LinkMode::shared : LinkMode::network;
  ExporterHandshake::Options options;
  options.mode = session.mode;
  if (sessions_.size() >= most) {
    options.refusal = Error{ErrorCode::out_of_memory,
                            "it serves " + std::to_string(most) + " processes, and no more",
                            "raise the setting clients_max there"};
  }
  options.admit = [this, &session](const ExporterHandshake::Applicant& applicant) {
    return admit(session, applicant);
  };
  options.ready = [this, &session](bool carried) {
    if (carried) session.grants.set_carrier(options_.carrier);
  };
  session.handshake = std::make_unique<ExporterHandshake>(terms_, std::move(options));
  session.label = session.handshake->label();
  sessions_[connection] = std::move(made);
}

void FabricCore::on_handshake(Session& session, MessageType type, std::span<const std::byte> body,
                              std::span<FileDescriptor> descriptors) {
  const auto reply = session.handshake->on_message(type, body, descriptors);
  session.label = session.handshake->label();
  if (!reply) return lose(session, reply.error());
  if (!*reply) return;
  send(session, **reply);
  if (session.segment.memory()) session.segment.memory()->close_descriptor();
}

void FabricCore::send(Session& session, const HandshakeMessage& message) {
  send(session, message.type, 0, message.body, message.descriptors);
}

/// Gives a requester a seat, so that the service threads serve its slots when it rings.
Result<ServiceThreads::Seat> FabricCore::admit(Session& session,
                                               const ExporterHandshake::Applicant& applicant) {
  const bool shared = applicant.mode == LinkMode::shared;
  if (shared) {
    const Status watched = watch_process(session, wire_->peer(session.connection));
    if (!watched) return watched.error();
  }
  auto server = make_server(session.connection, applicant);
  auto seat = service_threads_->add(server);
  if (!seat) return seat.error();
  session.segment = applicant.segment;
  session.server = std::move(server);
  session.seat = *seat;
  session.grants = ExportGrants(exports_, applicant.mode,
                                shared ? LeaseGrants(applicant.segment) : LeaseGrants());
  return *seat;
}

std::shared_ptr<SlotServer> FabricCore::make_server(ConnectionId connection,
                                                    const ExporterHandshake::Applicant& applicant) {
  if (options_.register_slots) options_.register_slots(*applicant.segment.memory());
  SlotServer::Options options;
  options.segment = applicant.segment;
  options.exports = exports_;
  options.copy = options_.copy;
  options.execute = options_.execute;
  options.answer = options_.answer;
  options.take_notice = options_.take_notice;
  options.id = RequesterId{connection};
  options.requester = applicant.label;
  options.identity = applicant.identity;
  if (applicant.mode == LinkMode::shared) {
    options.answered = [bell = applicant.bell](int, const SlotBytes&) {
      reinterpret_cast<Bell*>(bell->data())->ring();
    };
  } else {
    options.network = true;
    options.answered = [wire = wire_, segment = applicant.segment, connection](
                           int slot, const SlotBytes& bytes) {
      send_answered(*wire, connection, segment, slot, bytes);
    };
  }
  return std::make_shared<SlotServer>(std::move(options));
}

void FabricCore::add_link(Session& session, RequesterHandshake::Agreement agreement) {
  auto link = std::make_shared<Link>();
  session.segment = agreement.segment;
  session.peer = link->peer = PeerId{++last_peer_};
  link->requester = make_requester(session.connection, agreement);
  link->label = std::move(agreement.label);
  link->way = std::move(agreement.way);
  link->identity = std::move(agreement.identity);
  link->mode = agreement.mode;
  link->direct = agreement.direct_pid != 0;
  link->carrier = std::move(agreement.carrier);
  link->copy = options_.copy;
  link->bell_memory = bell_memory_;
  session.link = link;
  {
    std::lock_guard lock(links_mutex_);
    std::erase_if(links_, [](const auto& one) { return one.second->requester->lost(); });
    links_[link->peer] = link;
  }
  session.connecting->set_value(link->peer);
  session.connecting.reset();
}

std::shared_ptr<Requester> FabricCore::make_requester(
    ConnectionId connection, const RequesterHandshake::Agreement& agreement) {
  Requester::Options options;
  options.segment = agreement.segment;
  options.copy = options_.copy;
  options.peer = agreement.label;
  options.leases = agreement.mode == LinkMode::shared;
  options.direct_pid = agreement.direct_pid;
  if (agreement.mode == LinkMode::shared) {
    options.publish = [seat = agreement.seat](int, std::size_t, const SlotBytes&) { seat.ring(); };
    return std::make_shared<Requester>(std::move(options));
  }
  options.publish = [wire = wire_, segment = agreement.segment, connection](
                        int slot, std::size_t command_bytes, const SlotBytes& bytes) {
    send_submitted(*wire, connection, segment, slot, command_bytes, bytes);
  };
  if (seams_.threads) {
    options.attend = [weak = weak_from_this()](std::uint32_t seen,
                                               std::chrono::nanoseconds at_most) {
      if (const auto core = weak.lock()) core->attend(seen, at_most);
    };
  }
  options.keep_bulk = [wire = wire_, connection] { wire->keep_bulk(connection); };
  return std::make_shared<Requester>(std::move(options));
}

}  // namespace tranship::fabric
