// The further sockets of a connection, for messages with bulk.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "fabric/wires/wire.hpp"

namespace tranship::fabric {

struct SocketConnection;

/// The further sockets of a connection, which carry its messages with bulk, and the way that each
/// message takes. A socket joins first: it is in its handshake, or its client has not sent over it
/// yet. Threads: all.
class BulkSockets {
 public:
  using Pointer = std::shared_ptr<SocketConnection>;

  void begin_to_join(const Pointer& socket);
  /// Makes messages with bulk use a socket.
  void join(const Pointer& socket);
  /// Forgets a socket that has not joined.
  void give_up(const Pointer& socket);
  bool has_joined(const Pointer& socket) const;
  bool joining() const;
  /// Returns all sockets, including those that are still joining.
  std::vector<Pointer> all() const;

  /// Remembers the socket that has brought a command. Null: the connection's own socket.
  void note(std::uint32_t slot, Pointer brought);
  /// Returns the socket for a message; null: the connection's own. An answer goes over the socket
  /// of its question, whose bytes it acknowledges; other messages with bulk go over the socket with
  /// the least to write, if possible one that is open. A sender whose message depends on an earlier
  /// one with bulk waits for that one's answer, or for Wire::in_order().
  Pointer way_of(const WireMessage& message);

 private:
  mutable std::mutex mutex_;  ///< guards all following members
  std::vector<Pointer> joined_;
  std::vector<Pointer> joining_;
  std::map<std::uint32_t, Pointer> brought_by_;  ///< For each unanswered command, by slot.
};

}  // namespace tranship::fabric
