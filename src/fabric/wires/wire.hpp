// Connections between processes, and the messages that go over them.
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
#include "os/descriptor.hpp"

namespace tranship::fabric {

using ConnectionId = std::uint64_t;

/// What is known of the process at the other end before it has said a word.
struct WirePeer {
  bool local = false;  ///< It is on this machine, and the kernel says the following of it.
  pid_t pid = 0;       ///< 0: in a namespace of processes that this one does not see.
  int pidfd = -1;      ///< Readable when it has ended; owned by the wire. -1: unknown.
  std::string address;
};

/// A message to send. What it refers to is copied, but for `bulk`.
struct WireMessage {
  MessageHeader header;
  std::span<const std::byte> body;
  /// Bytes that the receiver's wire writes where its `place` handler says. They are read where they
  /// lie, once or again, until `owner` is released.
  std::span<const std::byte> bulk;
  /// Held while `bulk` may still be read: until the other side says that it has the message, the
  /// connection is lost, or keep_bulk() has copied what was left.
  std::shared_ptr<const void> owner{};
  /// Whether `owner` keeps `bulk` as it is until the other side has the message, and nobody else
  /// needs the memory before: keep_bulk() copies nothing then.
  bool bulk_stays = false;
  /// Descriptors to hand over, which are duplicated; only to a local peer, at most
  /// descriptors_max.
  std::span<const int> descriptors;
};

constexpr std::size_t descriptors_max = 4;
/// Largest body of a message, in bytes. Names and descriptions of arrays are the longest.
constexpr std::size_t body_bytes_max = std::size_t{4} << 20;

/// Where some of a message's bulk is written.
struct ReceiveBuffer {
  std::span<std::byte> bytes;  ///< Empty refuses the message, and ends the connection.
  /// Released once they are written: until then `bytes` may be.
  std::shared_ptr<const void> held{};
};

/// Carries messages, each whole and once, between processes that have proved who they are: in
/// order, but for those with bulk over a connection of several sockets, which others may overtake.
/// A connection ends by close(), or is lost; what was sent to it and not yet received is lost then.
/// Over a network, a broken connection is made anew behind the same id, within a limit, and goes on
/// where it was.
/// Threads: progress(), arm() and close() from one thread, to which handlers are called; send(),
/// connect() and keep_bulk() from all. Handlers may call everything but progress().
class Wire {
 public:
  struct Handlers {
    std::function<void(ConnectionId)> arrived;  ///< Somebody came in, and proved that he may.
    std::function<void(ConnectionId, const MessageHeader&, std::span<const std::byte> body,
                       std::span<FileDescriptor> descriptors)>
        message;
    /// Returns where the bulk of a message belongs from its byte `offset` on: room for at most the
    /// `left` bytes that are still to come. Asked anew for each part that comes, so that who gives
    /// the room can take it back between two of them.
    std::function<ReceiveBuffer(ConnectionId, const MessageHeader&, std::span<const std::byte> body,
                                std::int64_t offset, std::int64_t left)>
        place;
    std::function<void(ConnectionId, const Error& why)> lost;
  };

  virtual ~Wire() = default;

  /// Where this process listens, and the key that lets others in over a network.
  virtual Contact contact() const = 0;

  /// From now on also lets in over a network who has this key: that of a group.
  virtual void accept_key(const Key& key) = 0;

  /// Readable when progress() has something to do, once arm() returned true.
  virtual int event_descriptor() const = 0;
  virtual bool arm() = 0;
  virtual bool progress() = 0;

  /// Begins a connection: over a Unix-domain socket where the contact names one that can be
  /// reached, else over the network. Messages may be sent at once.
  /// @error invalid_argument for an address that cannot be used; peer_lost if nobody listens there
  virtual Result<ConnectionId> connect(const Contact& contact) = 0;

  virtual void send(ConnectionId connection, const WireMessage& message) = 0;

  /// From now on the bulk of what was sent is read nowhere but in copies of it. Threads: all.
  virtual void keep_bulk(ConnectionId connection) = 0;

  /// Whether a message that is sent now arrives behind all that were sent before: nothing with bulk
  /// is on its way over another socket.
  virtual bool in_order(ConnectionId connection) const {
    (void)connection;
    return true;
  }

  virtual WirePeer peer(ConnectionId connection) const = 0;

  /// Ends a connection after what was sent has gone out, within a limit.
  virtual void close(ConnectionId connection) = 0;

  /// Closes all connections, listens no longer, and waits, within a limit, until what was sent has
  /// gone out.
  virtual void drain() = 0;
};

}  // namespace tranship::fabric
