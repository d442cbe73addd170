// A connection that this process has made, to request copies.
#pragma once

#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fabric/sessions/session.hpp"

namespace tranship::fabric {

/// A reply, and the descriptor of memory that accompanied it.
struct Answer {
  std::vector<std::byte> body;
  FileDescriptor memory;
};
using Reply = Result<Answer>;

/// A connection that this process has made. It has a link from the end of its handshake on.
class RequesterSession final : public Session {
 public:
  using Connected = std::shared_ptr<std::promise<Result<PeerId>>>;

  /// contact, text: As the caller of connect() gave them. connected: Kept once there is a link, or
  /// an error.
  RequesterSession(SessionParts& parts, ConnectionId connection, const WirePeer& peer,
                   const Contact& contact, const std::string& text, Connected connected);

  /// Begins the handshake.
  /// @error peer_lost if the connection was lost meanwhile; io if there is no descriptor
  Status start(const WirePeer& peer);

  /// Returns whether connect() still waits for the link.
  bool connecting() const { return connected_ != nullptr; }
  /// Null: there is none yet.
  const std::shared_ptr<Link>& link() const { return link_; }

  /// Sends a message whose reply keeps `promise`; also if the session ends before.
  void call(MessageType type, std::uint64_t id, std::span<const std::byte> body,
            std::shared_ptr<std::promise<Reply>> promise);
  void abandon_call(std::uint64_t id) { calls_.erase(id); }

  /// Disconnects: says goodbye. The peer, which then closes its end, has until `leaves_by`; `left`
  /// is kept when the session ends.
  void leave(TimePoint leaves_by, std::shared_ptr<std::promise<bool>> left);
  bool leaving() const { return left_ != nullptr; }
  TimePoint leaves_by() const { return leaves_by_; }

  ReceiveBuffer place(const MessageHeader& header, std::span<const std::byte> body,
                      std::int64_t offset, std::int64_t left) const override;
  Status tick(TimePoint now) override;
  Error lost_by_wire(const Error& why) const override;
  bool copying() const override { return link_ && link_->requester->in_use(); }

 private:
  Handshake& handshake() override { return handshake_; }
  const Handshake& handshake() const override { return handshake_; }
  Status on_link_message(const MessageHeader& header, std::span<const std::byte> body,
                         std::span<FileDescriptor> descriptors) override;
  void on_end(const Error& error) override;
  Status on_answered(const MessageHeader& header, std::span<const std::byte> body);
  void on_reply(std::uint64_t call, std::span<const std::byte> body,
                std::span<FileDescriptor> descriptors);
  void add_link(RequesterHandshake::Agreement agreement);
  std::shared_ptr<Requester> make_requester(const RequesterHandshake::Agreement& agreement) const;

  RequesterHandshake handshake_;
  Connected connected_;
  std::shared_ptr<Link> link_;
  std::map<std::uint64_t, std::shared_ptr<std::promise<Reply>>> calls_;
  TimePoint leaves_by_{};
  std::shared_ptr<std::promise<bool>> left_;
};

}  // namespace tranship::fabric
