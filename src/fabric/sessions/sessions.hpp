// The connections of a process.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "fabric/sessions/exporter_session.hpp"
#include "fabric/sessions/requester_session.hpp"

namespace tranship::fabric {

/// The sessions of a process: passes them the wire's messages, and ends those that break the
/// protocol, are lost or leave. Owns them. Threads: the progress thread.
class Sessions {
 public:
  /// parts, clock: Outlive the sessions.
  Sessions(SessionParts& parts, const Clock& clock) : parts_(parts), clock_(clock) {}

  /// Returns the handlers for the wire's messages.
  Wire::Handlers handlers();

  /// Begins the handshake over a connection that this process has made.
  void connect(ConnectionId connection, const Contact& contact, const std::string& text,
               RequesterSession::Connected connected);
  /// Ends a connection whose caller waits no longer, unless there is a link by now.
  void abandon(ConnectionId connection);
  /// Disconnects from a peer. `left` is kept when the session has ended, or if there is none.
  void leave(PeerId peer, std::shared_ptr<std::promise<bool>> left);
  /// Returns the session of a link; null if it was lost.
  RequesterSession* find(PeerId peer);
  void notify(RequesterId requester, std::span<const std::byte> body);
  /// Takes an export back from all requesters, as ExporterSession::withdraw() does.
  bool withdraw(std::uint64_t export_id, int index, bool end);
  /// Handles the exit of the process at the other end of a connection on this machine.
  void on_process_ended(ConnectionId connection);

  void tick();
  /// Ends the sessions that leave, and whose peers do not close their ends in time.
  void end_leaving();
  /// Forgets the sessions that were lost.
  void erase_lost();
  std::size_t size() const { return requesting_.size() + serving_.size(); }
  /// Returns whether the peer of a session has still to read a goodbye.
  bool leaving() const { return leaving_ > 0; }

  // the parts of closing
  /// Fails all requests, and refuses connections from now on.
  void begin_closing();
  bool copying() const;
  /// Sends a goodbye to each peer to which no answer is under way: a peer that reads a goodbye no
  /// longer waits for answers. late: Sends a goodbye to all peers, so that they are informed of the
  /// close.
  void send_goodbyes(bool late);
  void end_all();

  /// Time within which a peer closes its end after a goodbye.
  static constexpr std::chrono::milliseconds goodbye_max{300};

 private:
  Session::TimePoint now() const {
    return Session::TimePoint(std::chrono::nanoseconds(clock_.now_ns()));
  }
  void on_arrived(ConnectionId connection);
  Session* find(ConnectionId connection) const;
  void lose(Session& session, Error error);
  void lose_if(Session& session, const Status& status);
  /// Calls `visit` for each session that was not lost.
  template <typename Visit>
  void for_each(Visit visit) const;

  SessionParts& parts_;
  const Clock& clock_;
  std::map<ConnectionId, std::unique_ptr<RequesterSession>> requesting_;
  std::map<ConnectionId, std::unique_ptr<ExporterSession>> serving_;
  int leaving_ = 0;
  bool closing_ = false;
};

/// Returns the error of calls after close().
Error engine_closed();

}  // namespace tranship::fabric
