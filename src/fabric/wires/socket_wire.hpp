// Connections over Unix-domain sockets on one machine, and over authenticated TCP between machines.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fabric/wires/listeners.hpp"
#include "fabric/wires/socket_connection.hpp"
#include "fabric/wires/wire.hpp"

namespace tranship::fabric {

/// A wire over sockets.
/// On one machine it listens on an abstract Unix-domain address, and accepts processes of the same
/// user, and of the users in `users`, as the kernel reports them. Over a network both sides prove
/// by challenge and response that they have the key, before any message; a broken connection is
/// made again within `reconnect`, and resumes where it broke. With `tls` all bytes on a network are
/// encrypted, and peers that do not encrypt are refused. A connection over a network may have
/// further sockets for messages with bulk, in case one socket does not fill the link; then small
/// messages do not wait behind bulk. Each socket is reconnected separately. Connections that have
/// not yet authenticated share a few places, each for a limited time.
class SocketWire final : public Wire {
 public:
  struct Options {
    bool listen_locally = false;
    std::string listen;        ///< HOST:PORT on which to listen for others; empty: on none.
    Key key{};                 ///< Authenticates peers over a network.
    std::vector<uid_t> users;  ///< Other users of this machine that may connect.
    /// Time limit for a broken network connection to be made again.
    std::chrono::milliseconds reconnect{1000};
    /// Time after which a machine whose kernel does not answer counts as lost.
    std::chrono::seconds silence{60};
    bool tls = false;        ///< Connections over a network are encrypted by TLS 1.3.
    bool checksums = false;  ///< Network messages carry checksums; one side's setting is enough.
    /// Sockets of each connection that this side makes over a network, 1 to sockets_max.
    int sockets = 1;
    Handlers handlers;
  };

  static constexpr int sockets_max = 16;

  /// Opens a wire.
  /// @error as listen_locally() and listen_on_network(); io
  static Result<std::unique_ptr<SocketWire>> open(Options options);
  ~SocketWire() override;

  Contact contact() const override { return contact_; }
  void accept_key(const Key& key) override;
  int event_descriptor() const override { return events_.descriptor(); }
  bool arm() override { return true; }
  bool progress() override;
  Result<ConnectionId> connect(const Contact& contact) override;
  void send(ConnectionId connection, const WireMessage& message) override;
  void keep_bulk(ConnectionId connection) override;
  bool in_order(ConnectionId connection) const override;
  WirePeer peer(ConnectionId connection) const override;
  void close(ConnectionId connection) override;
  void drain() override;

 private:
  using Clock = std::chrono::steady_clock;
  using Phase = SocketConnection::Phase;
  using ConnectionPointer = ConnectionTable::Pointer;

  explicit SocketWire(Options options) : options_(std::move(options)), key_(options_.key) {}
  Status start();
  Key key() const;
  bool allowed(uid_t user) const;

  // new connections
  void accept_one(FileDescriptor socket, bool local);
  Result<ConnectionId> connect_to_local(const Contact& contact);
  Result<ConnectionId> connect_to_network(const Contact& contact);
  ConnectionId add_network_client(const ConnectionPointer& connection, FileDescriptor socket);
  void prove(const ConnectionPointer& connection);
  void go_on(const ConnectionPointer& connection);
  void take_claim(const ConnectionPointer& connection, SocketProofs& proofs);
  void take_ready(const ConnectionPointer& connection, const SocketProofs& proofs);
  ConnectionPointer session_of(const SessionToken& token) const;
  void resume(const ConnectionPointer& connection, SocketProofs& proofs);
  void opened(const ConnectionPointer& connection, const SocketProofs& proofs,
              std::uint64_t received);

  // bulk sockets
  bool begin_bulk_socket(const ConnectionPointer& connection, SocketProofs& proofs);
  bool join_link(const ConnectionPointer& connection);
  void connect_next_bulk_socket(const ConnectionPointer& link);

  // messages
  void handle(const ConnectionPointer& connection, std::uint32_t events);
  void read(const ConnectionPointer& connection);
  bool on_frame(const ConnectionPointer& connection, const FrameHeader& frame,
                std::span<const std::byte> body, std::span<FileDescriptor> descriptors);
  bool take_sequence(const ConnectionPointer& connection, const FrameHeader& frame);
  void flush(SocketConnection& connection);

  // connections that break or end
  void broken(const ConnectionPointer& connection, const std::string& why);
  void stay_detached(const ConnectionPointer& connection, const Error& why);
  void reconnect(const ConnectionPointer& connection);
  void lose(const ConnectionPointer& connection, const Error& error);
  void close_socket(const ConnectionPointer& connection);
  void remove(const ConnectionPointer& connection);
  void allow_for_standstill(Clock::time_point now);
  bool tick();

  Options options_;
  Contact contact_;
  EventSet events_;
  Listeners listeners_;
  ConnectionTable connections_;
  Clock::time_point next_tick_{};
  mutable std::mutex key_mutex_;  ///< guards the following member
  Key key_;                       ///< Authenticates processes that connect over a network.
};

}  // namespace tranship::fabric
