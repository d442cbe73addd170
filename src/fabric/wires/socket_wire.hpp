// Connections over Unix-domain sockets on one machine, and over authenticated TCP between machines.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fabric/wires/frame_stream.hpp"
#include "fabric/wires/wire.hpp"
#include "os/socket.hpp"

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
  int event_descriptor() const override { return epoll_.get(); }
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
  enum class Phase {
    connecting,      ///< The client's TCP connection is being made.
    securing,        ///< The TLS handshake is in progress.
    awaiting_hello,  ///< The listener has received nothing yet.
    awaiting_server_hello,
    awaiting_proof,
    awaiting_ready,
    open,
    detached,  ///< The socket has broken; it may be replaced by a new one.
    closing    ///< Closed by close(); queued messages are still sent.
  };
  struct Connection {
    explicit Connection(bool is_local) : local(is_local), writer(!is_local), reader(is_local) {}
    ConnectionId id = 0;
    bool local;
    bool client = false;
    bool announced = false;  ///< `arrived` was called, or this process has connected.
    std::atomic<Phase> phase{Phase::open};
    std::atomic<bool> overflowed{false};  ///< The queue has refused a message.
    FileDescriptor socket;
    std::shared_ptr<TlsStream> tls;  ///< Encryption of the socket's bytes; null: none.
    SocketPeer peer;
    std::string address;
    std::uint32_t events = 0;  ///< The events that epoll reports.
    Clock::time_point deadline = Clock::time_point::max();
    Clock::time_point next_try{};
    Key key{};
    ClientHello hello;
    ServerHello answer;               ///< Answer to the client's hello.
    std::vector<std::byte> greeting;  ///< Bytes of the current step that have been read.
    SessionToken token{};
    std::uint64_t received = 0;
    Clock::time_point opened_at{};
    std::uint64_t resumed_from = 0;  ///< Messages that the other side had received when it opened.
    int short_lives = 0;  ///< Consecutive times that it broke at once, with nothing received.
    std::string trouble;  ///< Why the connection broke.
    FrameWriter writer;
    FrameReader reader;
    /// For a bulk socket: the connection whose bulk it carries. 0: no bulk socket.
    ConnectionId bulk_of = 0;
    /// For a client's connection: bulk sockets that are still to be made, one after another.
    int bulk_sockets_left = 0;
    /// The bulk sockets of this connection that carry messages. Guarded by mutex_.
    std::vector<std::shared_ptr<Connection>> bulk_sockets;
    /// Bulk sockets in their handshake, or over which the client has not sent yet. Guarded by
    /// mutex_.
    std::vector<std::shared_ptr<Connection>> bulk_sockets_joining;
    /// The bulk socket that brought each unanswered command, by slot. Guarded by mutex_.
    std::map<std::uint32_t, std::shared_ptr<Connection>> brought_by;
    /// Returns the connection to which the messages of this socket belong.
    ConnectionId link() const { return bulk_of != 0 ? bulk_of : id; }
    ByteStream stream() const { return {socket.get(), tls}; }
  };
  using ConnectionPointer = std::shared_ptr<Connection>;

  explicit SocketWire(Options options) : options_(std::move(options)) {}
  Status start();

  // socket_wire.cpp: sockets and their events
  bool allowed(uid_t user) const;
  Result<ConnectionId> connect_to_local(const Contact& contact);
  ConnectionId add(ConnectionPointer connection);
  ConnectionPointer find(ConnectionId id) const;
  bool watch(Connection& connection, std::uint32_t events);
  void accept_all(const FileDescriptor& listener, bool local);
  void refuse_one(const FileDescriptor& listener);
  void accept_one(FileDescriptor socket, bool local);
  void handle(Connection& connection, std::uint32_t events);
  void read(const ConnectionPointer& connection);
  bool on_frame(Connection& connection, const FrameHeader& frame, std::span<const std::byte> body,
                std::span<FileDescriptor> descriptors);
  void flush(Connection& connection);
  ConnectionPointer way_of(const ConnectionPointer& connection, const WireMessage& message);
  void note_way(const Connection& connection, const FrameHeader& frame);
  std::vector<ConnectionPointer> all_sockets(const ConnectionPointer& connection) const;
  bool has_joined(const ConnectionPointer& connection, const ConnectionPointer& link) const;
  void give_up(Connection& connection);
  void broken(const ConnectionPointer& connection, const std::string& why);
  void lose(const ConnectionPointer& connection, const Error& error);
  void close_socket(const ConnectionPointer& connection);
  void remove(ConnectionId id);
  void allow_for_standstill(Clock::time_point now);
  bool tick();

  // socket_handshake.cpp: proofs, and reconnected connections
  Result<ConnectionId> connect_to_network(const Contact& contact);
  ConnectionId add_network_client(ConnectionPointer connection, FileDescriptor socket);
  void start_handshake(Connection& connection);
  void start_proofs(Connection& connection);
  bool secure(const ConnectionPointer& connection);
  void not_secured(const ConnectionPointer& connection);
  void refuse(Connection& connection, std::uint32_t why);
  void go_on(const ConnectionPointer& connection);
  bool read_step(Connection& connection, std::size_t bytes, bool& failed);
  bool write_step(Connection& connection, std::span<const std::byte> bytes);
  bool take_hello(Connection& connection);
  bool take_server_hello(Connection& connection);
  bool take_proof(const ConnectionPointer& connection);
  bool take_ready(Connection& connection);
  bool take_session(const ConnectionPointer& connection, const ClientProof& given);
  bool take_bulk_socket(const ConnectionPointer& connection, const ClientProof& given);
  ConnectionPointer session_of(const SessionToken& token) const;
  bool add_bulk_socket(const ConnectionPointer& connection);
  void connect_next_bulk_socket(const ConnectionPointer& link);
  void resume(const ConnectionPointer& old, const ConnectionPointer& fresh, std::uint64_t received);
  void opened(Connection& connection, std::uint64_t received);
  void reconnect(const ConnectionPointer& connection);
  Key key() const;
  void stay_detached(const ConnectionPointer& connection, const Error& why);
  std::size_t pending() const;
  void drop_oldest_pending();

  Options options_;
  Contact contact_;
  FileDescriptor epoll_;
  FileDescriptor local_listener_;
  FileDescriptor network_listener_;
  FileDescriptor spare_;  ///< Closed to accept and refuse a client when no descriptor is left.
  Clock::time_point next_tick_{};
  mutable std::mutex mutex_;  ///< guards all following members
  std::map<ConnectionId, ConnectionPointer> connections_;
  ConnectionId last_id_ = 0;
  Key key_{};  ///< Authenticates processes that connect over a network.
};

}  // namespace tranship::fabric
