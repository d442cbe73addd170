// The interface of wires, which carry messages between processes.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "fabric/messages/contact.hpp"
#include "fabric/messages/protocol.hpp"
#include "fabric/wires/gathered_bytes.hpp"
#include "os/descriptor.hpp"

namespace tranship::fabric {

using ConnectionId = std::uint64_t;

/// The process at the other end of a connection, as the kernel reports it.
struct WirePeer {
  bool local = false;  ///< The process is on this machine; otherwise only `address` is set.
  pid_t pid = 0;       ///< 0: the process is in a namespace that is not visible here.
  int pidfd = -1;      ///< Readable when the process has exited; owned by the wire. -1: unknown.
  std::string address;
};

/// A message to send. Its parts are copied, except for `bulk`.
struct WireMessage {
  MessageHeader header;
  std::span<const std::byte> body;
  /// Bytes that the receiver's wire writes where its `place` handler says. The sender's wire reads
  /// them in place, perhaps several times, until it releases `owner`.
  GatheredBytes bulk{};
  /// Held while `bulk` may still be read: until the receiver has acknowledged the message, the
  /// connection is lost, or keep_bulk() has copied the rest.
  std::shared_ptr<const void> owner{};
  /// Whether `owner` keeps `bulk` unchanged until the message is acknowledged, and the memory has
  /// no other use before then: keep_bulk() then copies nothing.
  bool bulk_stays = false;
  /// Descriptors to duplicate to a peer on this machine, at most descriptors_max.
  std::span<const int> descriptors;
};

constexpr std::size_t descriptors_max = 4;
/// Largest body of a message, in bytes. Names and descriptions of arrays are the longest.
constexpr std::size_t body_bytes_max = std::size_t{4} << 20;

/// Memory to which part of a message's bulk is written.
struct ReceiveBuffer {
  std::span<std::byte> bytes;  ///< Empty refuses the message, and ends the connection.
  /// Held while the memory may be written; released afterwards.
  std::shared_ptr<const void> held{};
  std::vector<std::span<std::byte>> more{};  ///< Where the bytes after those go, part by part.
};

/// Carries messages between authenticated processes, each message completely and once. Messages
/// arrive in order, except that others may overtake those with bulk on a connection of several
/// sockets. A connection ends by close(), or is lost; messages that have not arrived by then are
/// lost too. Over a network, a broken connection is made again under the same id, within a time
/// limit, and resumes where it broke.
/// Threads: progress(), arm() and close() from one thread, on which handlers are called; send(),
/// connect() and keep_bulk() from all. Handlers may call every function but progress().
class Wire {
 public:
  struct Handlers {
    /// Called when a process has connected and has been authenticated.
    std::function<void(ConnectionId)> arrived;
    std::function<void(ConnectionId, const MessageHeader&, std::span<const std::byte> body,
                       std::span<FileDescriptor> descriptors)>
        message;
    /// Returns where to write the bulk of a message from its byte `offset` on: room for at most the
    /// `left` bytes that are still to come. Called again for each part, so that memory can be
    /// withdrawn between two parts.
    std::function<ReceiveBuffer(ConnectionId, const MessageHeader&, std::span<const std::byte> body,
                                std::int64_t offset, std::int64_t left)>
        place;
    std::function<void(ConnectionId, const Error& why)> lost;
  };

  virtual ~Wire() = default;

  /// Returns where this process listens, and the key that authenticates peers over a network.
  virtual Contact contact() const = 0;

  /// Accepts connections over a network that prove to have this key, from now on, in addition to
  /// others.
  virtual void accept_key(const Key& key) = 0;

  /// Returns a descriptor that is readable when progress() has something to do, once arm() has
  /// returned true.
  virtual int event_descriptor() const = 0;
  virtual bool arm() = 0;
  virtual bool progress() = 0;

  /// Begins a connection: over a Unix-domain socket if the contact names one that can be reached,
  /// else over the network. Messages may be sent at once.
  /// @error invalid_argument if an address cannot be used; peer_lost if nothing listens at it
  virtual Result<ConnectionId> connect(const Contact& contact) = 0;

  virtual void send(ConnectionId connection, const WireMessage& message) = 0;

  /// Copies the bulk of messages that are not yet acknowledged, so that its memory is no longer
  /// read. Threads: all.
  virtual void keep_bulk(ConnectionId connection) = 0;

  /// Returns whether a message that is sent now arrives after all earlier ones: no message with
  /// bulk is under way over another socket.
  virtual bool in_order(ConnectionId connection) const {
    (void)connection;
    return true;
  }

  virtual WirePeer peer(ConnectionId connection) const = 0;

  /// Ends a connection once the messages that were sent have left, within a time limit.
  virtual void close(ConnectionId connection) = 0;

  /// Stops listening, closes all connections, and waits, within a time limit, until the messages
  /// that were sent have left.
  virtual void drain() = 0;
};

}  // namespace tranship::fabric
