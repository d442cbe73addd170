// A connection of a requester, which this process serves.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "fabric/sessions/export_grants.hpp"
#include "fabric/sessions/session.hpp"

namespace tranship::fabric {

/// A connection of a requester. The requester has slots that are served from its admission on,
/// which is part of the handshake.
class ExporterSession final : public Session {
 public:
  /// refusal: Sent to the requester, which is then not served.
  ExporterSession(SessionParts& parts, ConnectionId connection, LinkMode mode, TimePoint began,
                  std::optional<Error> refusal);

  /// Sends the requester an unsolicited message.
  void notify(std::span<const std::byte> body) { send(MessageType::notice, 0, body); }
  /// Takes an export back. Returns whether the requester still copies directly into or out of it.
  /// end: Ends its lease and tells the requester, so that no new copy begins.
  bool withdraw(std::uint64_t export_id, int index, bool end);

  ReceiveBuffer place(const MessageHeader& header, std::span<const std::byte> body,
                      std::int64_t offset, std::int64_t left) const override;
  Status tick(TimePoint now) override;

 private:
  Handshake& handshake() override { return handshake_; }
  const Handshake& handshake() const override { return handshake_; }
  Status on_link_message(const MessageHeader& header, std::span<const std::byte> body,
                         std::span<FileDescriptor> descriptors) override;
  void on_end(const Error& error) override;
  void on_lookup(const MessageHeader& header, std::span<const std::byte> body);
  Status on_submitted(const MessageHeader& header, std::span<const std::byte> body);
  Result<ServiceThreads::Seat> admit(const ExporterHandshake::Applicant& applicant);
  std::shared_ptr<SlotServer> make_server(const ExporterHandshake::Applicant& applicant) const;

  ExporterHandshake handshake_;
  TimePoint began_;
  // The following members are set when the requester is admitted.
  std::shared_ptr<SlotServer> server_;
  ServiceThreads::Seat seat_;
  ExportGrants grants_;
};

}  // namespace tranship::fabric
