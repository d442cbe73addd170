// One connection, and what all connections of a process use.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/error.hpp"
#include "fabric/links/exports.hpp"
#include "fabric/links/fences.hpp"
#include "fabric/links/service_threads.hpp"
#include "fabric/messages/slots.hpp"
#include "fabric/sessions/attended_bell.hpp"
#include "fabric/sessions/handshake.hpp"
#include "fabric/sessions/link_table.hpp"
#include "fabric/sessions/options.hpp"
#include "fabric/wires/wire.hpp"
#include "os/event_set.hpp"

namespace tranship::fabric {

/// What a process has once and all its sessions use. Outlives them.
struct SessionParts {
  explicit SessionParts(FabricOptions given) : options(std::move(given)) {}

  FabricOptions options;
  HandshakeTerms terms;
  std::shared_ptr<ExportTable> exports = std::make_shared<ExportTable>();
  LinkTable links;
  AttendedBell bell;
  /// Waits for the bell, and meanwhile reads messages on the caller's thread. Empty: callers only
  /// wait for the bell.
  std::function<void(std::uint32_t seen, std::chrono::nanoseconds at_most)> attend;
  /// Wakes the progress thread when a process at the other end exits, by its connection. Not open
  /// where there is no such thread.
  EventSet events;
  std::shared_ptr<Wire> wire;
  std::unique_ptr<ServiceThreads> service_threads;
  Fences fences{options.on_requester_served, options.on_requester_gone};
};

/// A connection, from its handshake to its loss. A message or a time limit that ends it is an
/// error here; its owner then calls end().
/// Threads: the progress thread.
class Session {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  virtual ~Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  ConnectionId connection() const { return connection_; }
  /// Returns the process at the other end, as far as it is known, for messages.
  const std::string& label() const { return handshake().label(); }
  bool lost() const { return lost_; }

  /// @error why the connection has to end
  Status on_message(const MessageHeader& header, std::span<const std::byte> body,
                    std::span<FileDescriptor> descriptors);
  /// Returns where to write a message's bulk, as Wire::Handlers::place does.
  virtual ReceiveBuffer place(const MessageHeader& header, std::span<const std::byte> body,
                              std::int64_t offset, std::int64_t left) const = 0;
  /// Does what is due at times.
  /// @error why the connection has to end
  virtual Status tick(TimePoint now) = 0;
  /// Returns the error with which the session ends after the wire has lost the connection.
  virtual Error lost_by_wire(const Error& why) const;
  /// Returns whether copies of this process into or out of the peer's memory are under way.
  virtual bool copying() const { return false; }

  /// Sends the last message: the peer then closes its end.
  void say_goodbye();
  bool said_goodbye() const { return said_goodbye_; }
  /// Ends the session and its connection.
  void end(const Error& error);

 protected:
  Session(SessionParts& parts, ConnectionId connection, LinkMode mode)
      : parts_(parts), connection_(connection), mode_(mode) {}

  virtual Handshake& handshake() = 0;
  virtual const Handshake& handshake() const = 0;
  /// Handles a message that is neither of the handshake nor a goodbye.
  virtual Status on_link_message(const MessageHeader& header, std::span<const std::byte> body,
                                 std::span<FileDescriptor> descriptors) = 0;
  virtual void on_end(const Error& error) = 0;

  /// Watches the process at the other end, if that is known.
  /// @error io if there is no descriptor for that
  Status watch_process(const WirePeer& peer);
  void send(MessageType type, std::uint64_t call, std::span<const std::byte> body,
            std::span<const int> descriptors = {});
  void send(const HandshakeMessage& message);
  /// Returns whether a message may be one about a slot over a network, which it names.
  bool names_slot(const MessageHeader& header) const {
    return mode_ == LinkMode::network && header.slot < static_cast<std::uint32_t>(slots_max);
  }

  SessionParts& parts_;
  ConnectionId connection_;
  LinkMode mode_;
  SlotSegment segment_;
  FileDescriptor pidfd_;  ///< Process at the other end, if it is on this machine.

 private:
  Status on_handshake(MessageType type, std::span<const std::byte> body,
                      std::span<FileDescriptor> descriptors);

  bool lost_ = false;
  bool said_goodbye_ = false;
};

}  // namespace tranship::fabric
