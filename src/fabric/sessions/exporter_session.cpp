#include "fabric/sessions/exporter_session.hpp"

#include "fabric/links/slot_messages.hpp"

namespace tranship::fabric {
namespace {

constexpr std::chrono::seconds handshake_max{10};

}  // namespace

ExporterSession::ExporterSession(SessionParts& parts, ConnectionId connection, LinkMode mode,
                                 TimePoint began, std::optional<Error> refusal)
    : Session(parts, connection, mode),
      handshake_(parts.terms,
                 {mode, std::move(refusal),
                  [this](const ExporterHandshake::Applicant& one) { return admit(one); },
                  [this](bool carried) {
                    if (carried) grants_.set_carrier(parts_.options.carrier);
                  }}),
      began_(began) {}

/// Gives a requester a seat, so that the service threads serve its slots when it rings.
Result<ServiceThreads::Seat> ExporterSession::admit(const ExporterHandshake::Applicant& applicant) {
  const bool shared = applicant.mode == LinkMode::shared;
  if (shared) {
    const Status watched = watch_process(parts_.wire->peer(connection_));
    if (!watched) return watched.error();
  }
  auto server = make_server(applicant);
  auto seat = parts_.service_threads->add(server);
  if (!seat) return seat.error();
  segment_ = applicant.segment;
  server_ = std::move(server);
  seat_ = *seat;
  grants_ = ExportGrants(parts_.exports, applicant.mode,
                         shared ? LeaseGrants(applicant.segment) : LeaseGrants());
  return seat_;
}

std::shared_ptr<SlotServer> ExporterSession::make_server(
    const ExporterHandshake::Applicant& applicant) const {
  const FabricOptions& given = parts_.options;
  if (given.register_slots) given.register_slots(*applicant.segment.memory());
  SlotServer::Options options;
  options.segment = applicant.segment;
  options.exports = parts_.exports;
  options.copy = given.copy;
  options.execute = given.execute;
  options.answer = given.answer;
  options.take_notice = given.take_notice;
  options.id = RequesterId{connection_};
  options.requester = applicant.label;
  options.identity = applicant.identity;
  if (applicant.mode == LinkMode::shared) {
    options.answered = [bell = applicant.bell](int, const SlotBytes&) {
      reinterpret_cast<Bell*>(bell->data())->ring();
    };
  } else {
    options.network = true;
    options.answered = [wire = parts_.wire, segment = applicant.segment, connection = connection_](
                           int slot, const SlotBytes& bytes) {
      send_answered(*wire, connection, segment, slot, bytes);
    };
  }
  return std::make_shared<SlotServer>(std::move(options));
}

/// There is no reply before the requester is admitted, nor to unknown messages.
Status ExporterSession::on_link_message(const MessageHeader& header,
                                        std::span<const std::byte> body,
                                        std::span<FileDescriptor>) {
  if (!server_) return {};
  switch (header.type) {
    case MessageType::submitted: return on_submitted(header, body);
    case MessageType::lookup: on_lookup(header, body); break;
    case MessageType::names:
      send(MessageType::names_reply, header.call, encode_names(*parts_.exports));
      break;
    default: break;
  }
  return {};
}

void ExporterSession::on_lookup(const MessageHeader& header, std::span<const std::byte> body) {
  const ExportGrants::Found found = grants_.look_up(body);
  send(MessageType::lookup_reply, header.call, encode(found.reply),
       {&found.memory, found.memory >= 0 ? 1U : 0U});
}

Status ExporterSession::on_submitted(const MessageHeader& header, std::span<const std::byte> body) {
  if (!names_slot(header) || !take_submitted(segment_, static_cast<int>(header.slot), body)) {
    return Error{ErrorCode::invalid_argument, label() + " breaks the protocol"};
  }
  if (!server_->serve_quickly()) seat_.ring();
  return {};
}

ReceiveBuffer ExporterSession::place(const MessageHeader& header, std::span<const std::byte> body,
                                     std::int64_t offset, std::int64_t left) const {
  if (!server_ || header.type != MessageType::submitted || !names_slot(header)) return {};
  return server_->place(static_cast<int>(header.slot), command_in(body), offset, left);
}

Status ExporterSession::tick(TimePoint now) {
  if (server_ || now - began_ <= handshake_max) return {};
  return Error{ErrorCode::timeout, "a process connected and sent no hello in time"};
}

bool ExporterSession::withdraw(std::uint64_t export_id, int index, bool end) {
  if (!server_) return false;
  // Bytes of the array that are still to be sent are copied, and sent from the copy.
  if (mode_ == LinkMode::network) parts_.wire->keep_bulk(connection_);
  if (end) {
    MessageWriter message;
    message.add(export_id);
    grants_.end_lease(index);
    send(MessageType::withdrawn, 0, message.bytes());
  }
  return grants_.revoke(index, export_id);
}

/// The requester counts as gone, and the memory that it wrote to may have another use, once nothing
/// can access memory of this process for it any more; until then a fence stands.
void ExporterSession::on_end(const Error& error) {
  if (!server_) return;
  server_->stop();
  parts_.service_threads->remove(seat_);
  LeaseGrants leases = grants_.end();
  const bool cleanly = error.code == ErrorCode::closed;
  const RequesterId requester{connection_};
  if (parts_.options.on_requester_lost) parts_.options.on_requester_lost(requester, cleanly);
  parts_.fences.raise(
      {requester, cleanly, std::move(leases), std::move(server_), std::move(pidfd_), label()});
}

}  // namespace tranship::fabric
