// A connection over a socket, and the table of all connections.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "fabric/wires/bulk_sockets.hpp"
#include "fabric/wires/frame_stream.hpp"
#include "fabric/wires/socket_proofs.hpp"
#include "fabric/wires/watched_socket.hpp"
#include "os/socket.hpp"

namespace tranship::fabric {

/// Counts how often in a row a connection broke at once, with nothing received. A path that damages
/// every message would otherwise be reconnected forever.
class ShortLives {
 public:
  using Clock = std::chrono::steady_clock;

  /// received: Number of messages that the other side has received by now.
  void opened(Clock::time_point now, std::uint64_t received) {
    opened_at_ = now;
    if (received > received_) count_ = 0;
    received_ = received;
  }
  void message_arrived() { count_ = 0; }
  /// Returns whether the connection has broken too often.
  bool broke(Clock::time_point now) {
    count_ = now - opened_at_ < long_life ? count_ + 1 : 0;
    return count_ > in_a_row_max;
  }

  static constexpr std::chrono::seconds long_life{1};
  static constexpr int in_a_row_max = 50;

 private:
  Clock::time_point opened_at_{};
  std::uint64_t received_ = 0;
  int count_ = 0;
};

/// A connection over one socket. Threads: that of SocketWire::progress(), except for the objects
/// inside that say otherwise, and for what does not change after the connection was added.
struct SocketConnection {
  using Clock = std::chrono::steady_clock;
  enum class Phase {
    connecting,  ///< The client's TCP connection is being made.
    proving,     ///< Both sides prove that they have the key.
    open,
    detached,  ///< The socket has broken; it may be replaced by a new one.
    closing    ///< Closed by close(); queued messages are still sent.
  };

  SocketConnection(bool is_local, EventSet& events)
      : local(is_local), socket(events), writer(!is_local), reader(is_local) {}

  ConnectionId id = 0;
  bool local;
  bool client = false;
  bool announced = false;  ///< `arrived` was called, or this process has connected.
  std::atomic<Phase> phase{Phase::open};
  std::atomic<bool> overflowed{false};  ///< The queue has refused a message.
  WatchedSocket socket;
  std::shared_ptr<TlsStream> tls;  ///< Encryption of the socket's bytes; null: none.
  SocketPeer peer;
  std::string address;
  Clock::time_point deadline = Clock::time_point::max();
  Clock::time_point next_try{};
  Key key{};                           ///< The key of a client.
  std::optional<SocketProofs> proofs;  ///< Set while both sides prove that they have the key.
  SessionToken token{};                ///< All zero: it has never been open.
  std::uint64_t received = 0;
  ShortLives lives;
  std::string trouble;  ///< Why the connection broke.
  FrameWriter writer;
  FrameReader reader;
  /// For a bulk socket: the connection whose bulk it carries. 0: no bulk socket.
  ConnectionId bulk_of = 0;
  BulkSockets bulk_sockets;
  /// For a client's connection: bulk sockets that are still to be made, one after another.
  int bulk_sockets_left = 0;

  /// Returns the connection to which the messages of this socket belong.
  ConnectionId link() const { return bulk_of != 0 ? bulk_of : id; }
  ByteStream stream() const { return {socket.descriptor().get(), tls}; }
  bool never_opened() const { return token == SessionToken{}; }
};

/// All connections of a wire. Threads: all.
class ConnectionTable {
 public:
  using Pointer = std::shared_ptr<SocketConnection>;

  /// Adds a connection, and sets its id.
  ConnectionId add(const Pointer& connection) {
    std::lock_guard lock(mutex_);
    connection->id = ++last_id_;
    connections_[connection->id] = connection;
    return connection->id;
  }
  /// Null: there is none.
  Pointer find(ConnectionId id) const {
    std::lock_guard lock(mutex_);
    const auto found = connections_.find(id);
    return found == connections_.end() ? nullptr : found->second;
  }
  void remove(ConnectionId id) {
    std::lock_guard lock(mutex_);
    connections_.erase(id);
  }
  /// Returns the connections that pass a test, the oldest first.
  template <typename Test>
  std::vector<Pointer> where(Test test) const {
    std::vector<Pointer> found;
    std::lock_guard lock(mutex_);
    for (const auto& [id, connection] : connections_) {
      if (test(*connection)) found.push_back(connection);
    }
    return found;
  }

 private:
  mutable std::mutex mutex_;  ///< guards all following members
  std::map<ConnectionId, Pointer> connections_;
  ConnectionId last_id_ = 0;
};

}  // namespace tranship::fabric
