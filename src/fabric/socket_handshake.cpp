// How both ends of a connection over a network prove who they are, and how a broken one goes on.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "fabric/socket_wire.hpp"

namespace tranship {
namespace {

/// Whoever connects has so long to prove who he is.
constexpr std::chrono::seconds proof_max{5};
constexpr std::chrono::milliseconds reconnect_interval{50};

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <typename T>
T value_of(const std::vector<std::byte>& bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

Error wrong_key(const std::string& address) {
  return {ErrorCode::permission,
          "the process at " + address +
              " has another key: use its contact file, or set TRANSHIP_KEY to the same on both "
              "sides"};
}

}  // namespace

Result<ConnectionId> SocketWire::connect_to_network(const Contact& contact) {
  if (contact.network.empty()) {
    return Error{ErrorCode::peer_lost,
                 "the process there listens on its own machine only; let it listen on a network "
                 "too: set TRANSHIP_LISTEN=0.0.0.0:0 there"};
  }
  auto socket = connect_over_network(contact.network);
  if (!socket) return socket.error();
  auto connection = std::make_shared<Connection>(false);
  connection->client = true;
  connection->announced = true;
  connection->key = contact.key ? *contact.key : options_.key;
  connection->address = contact.network;
  connection->socket = std::move(*socket);
  connection->phase = Phase::connecting;
  prepare_network_socket(connection->socket, static_cast<int>(options_.silence.count()));
  const ConnectionId id = add(connection);
  std::lock_guard lock(mutex_);
  watch(*connection, EPOLLOUT);
  return id;
}

/// The first step of either side, once the socket is connected.
void SocketWire::start_handshake(Connection& connection) {
  connection.greeting.clear();
  if (connection.deadline == Clock::time_point::max()) {
    connection.deadline = Clock::now() + proof_max;
  }
  if (!connection.client) {
    connection.phase = Phase::awaiting_hello;
    return;
  }
  connection.hello = {};
  (void)fill_random(connection.hello.nonce);
  connection.phase = Phase::awaiting_server_hello;
  (void)write_step(connection, bytes_of(connection.hello));
}

/// Goes on with the proofs as far as the socket lets it.
void SocketWire::go_on(const ConnectionPointer& connection) {
  Connection& one = *connection;
  if (one.phase == Phase::connecting) {
    if (const int error = socket_error(one.socket); error != 0) {
      const Error why{ErrorCode::peer_lost, std::strerror(error)};
      // Where nobody listens any more the process has ended.
      return error == ECONNREFUSED ? lose(connection, why) : stay_detached(connection, why);
    }
    {
      std::lock_guard lock(mutex_);
      watch(one, EPOLLIN);
    }
    start_handshake(one);
    return;
  }
  while (one.phase != Phase::open && one.phase != Phase::detached && one.phase != Phase::closing) {
    const std::size_t bytes = one.phase == Phase::awaiting_hello          ? sizeof(ClientHello)
                              : one.phase == Phase::awaiting_server_hello ? sizeof(ServerHello)
                              : one.phase == Phase::awaiting_proof        ? sizeof(ClientProof)
                                                                          : sizeof(ServerReady);
    bool failed = false;
    if (!read_step(one, bytes, failed)) {
      if (!failed) return;
      const bool waits = one.phase == Phase::awaiting_ready;
      const bool is_new = one.token == SessionToken{};
      if (one.client && waits && is_new) return lose(connection, wrong_key(one.address));
      return stay_detached(connection,
                           {ErrorCode::peer_lost, "what listens there ended the connection"});
    }
    const bool good = one.phase == Phase::awaiting_hello          ? take_hello(one)
                      : one.phase == Phase::awaiting_server_hello ? take_server_hello(one)
                      : one.phase == Phase::awaiting_proof        ? take_proof(connection)
                                                                  : take_ready(one);
    one.greeting.clear();
    if (!good) return;
  }
}

/// A connection that was open before is tried again, within its limit; a new one is lost.
void SocketWire::stay_detached(const ConnectionPointer& connection, const Error& why) {
  if (connection->token == SessionToken{} || !connection->client) return lose(connection, why);
  broken(connection, why.message);
  connection->next_try = Clock::now() + reconnect_interval;
}

/// Reads a step of so many bytes; true when it is whole.
bool SocketWire::read_step(Connection& connection, std::size_t bytes, bool& failed) {
  const std::size_t before = connection.greeting.size();
  connection.greeting.resize(bytes);
  const ssize_t length =
      recv(connection.socket.get(), connection.greeting.data() + before, bytes - before, 0);
  const bool nothing = length < 0 && (errno == EAGAIN || errno == EINTR);
  failed = !nothing && length <= 0;
  connection.greeting.resize(before + (length > 0 ? static_cast<std::size_t>(length) : 0));
  return connection.greeting.size() == bytes;
}

/// A step is shorter than any socket's buffer, which is empty: it is taken whole or not at all.
bool SocketWire::write_step(Connection& connection, std::span<const std::byte> bytes) {
  return ::send(connection.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

bool SocketWire::take_hello(Connection& connection) {
  const auto held = find(connection.id);
  connection.hello = value_of<ClientHello>(connection.greeting);
  if (connection.hello.magic != ClientHello::magic_value ||
      connection.hello.version != wire_version_current) {
    lose(held, {ErrorCode::invalid_argument, "a connection that is not tranship's"});
    return false;
  }
  ServerHello answer;
  (void)fill_random(answer.nonce);
  const auto proof = proof_of(key(), ProvingSide::server, connection.hello, answer.nonce);
  if (!proof) {
    lose(held, proof.error());
    return false;
  }
  answer.proof = *proof;
  connection.server_nonce = answer.nonce;
  connection.phase = Phase::awaiting_proof;
  (void)write_step(connection, bytes_of(answer));
  return true;
}

bool SocketWire::take_server_hello(Connection& connection) {
  const auto held = find(connection.id);
  const auto answer = value_of<ServerHello>(connection.greeting);
  if (answer.magic != ClientHello::magic_value) {
    lose(held, {ErrorCode::invalid_argument, "what listens there is not tranship"});
    return false;
  }
  if (answer.version != wire_version_current) {
    lose(held, {ErrorCode::unsupported,
                "what listens there is another version of tranship: install the same on both "
                "sides"});
    return false;
  }
  const auto expected =
      proof_of(connection.key, ProvingSide::server, connection.hello, answer.nonce);
  if (!expected || !same_digest(*expected, answer.proof)) {
    lose(held, expected ? wrong_key(connection.address) : expected.error());
    return false;
  }
  ClientProof proof;
  proof.proof = *proof_of(connection.key, ProvingSide::client, connection.hello, answer.nonce);
  proof.session = connection.token;
  proof.received = connection.received;
  connection.phase = Phase::awaiting_ready;
  (void)write_step(connection, bytes_of(proof));
  return true;
}

bool SocketWire::take_proof(const ConnectionPointer& connection) {
  const auto given = value_of<ClientProof>(connection->greeting);
  const auto expected =
      proof_of(key(), ProvingSide::client, connection->hello, connection->server_nonce);
  if (!expected || !same_digest(*expected, given.proof)) {
    lose(connection, {ErrorCode::permission, "somebody without the key"});
    return false;
  }
  ServerReady ready;
  if (given.session != SessionToken{}) {
    ConnectionPointer old;
    {
      std::lock_guard lock(mutex_);
      for (const auto& [id, other] : connections_) {
        // What is closed only lingers for what was sent: nobody may take it up again.
        const bool open = other->announced && other->phase != Phase::closing;
        if (open && !other->local && !other->client && other->token == given.session) {
          old = other;
        }
      }
    }
    ready.status = old ? 0 : 1;
    ready.session = given.session;
    ready.received = old ? old->received : 0;
    (void)write_step(*connection, bytes_of(ready));
    if (old) {
      resume(old, connection, given.received);
    } else {
      lose(connection, {ErrorCode::peer_lost, "its session has ended"});
    }
    return false;
  }
  (void)fill_random(connection->token);
  ready.session = connection->token;
  (void)write_step(*connection, bytes_of(ready));
  connection->announced = true;
  opened(*connection, 0);
  options_.handlers.arrived(connection->id);
  return connection->phase == Phase::open;
}

bool SocketWire::take_ready(Connection& connection) {
  const auto ready = value_of<ServerReady>(connection.greeting);
  if (ready.status != 0) {
    lose(find(connection.id), {ErrorCode::peer_lost, "the connection broke for too long"});
    return false;
  }
  connection.token = ready.session;
  opened(connection, ready.received);
  return true;
}

/// A client has come back: its session goes on over the new socket.
void SocketWire::resume(const ConnectionPointer& old, const ConnectionPointer& fresh,
                        std::uint64_t received) {
  old->writer.detach();
  old->reader.reset();
  {
    std::lock_guard lock(mutex_);
    (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fresh->socket.get(), nullptr);
    old->socket = std::move(fresh->socket);
    old->events = 0;
  }
  fresh->phase = Phase::closing;
  remove(fresh->id);
  opened(*old, received);
}

void SocketWire::opened(Connection& connection, std::uint64_t received) {
  if (connection.overflowed) {
    return lose(find(connection.id), {ErrorCode::peer_lost, "it has read nothing for too long"});
  }
  connection.phase = Phase::open;
  connection.deadline = Clock::time_point::max();
  {
    std::lock_guard lock(mutex_);
    watch(connection, EPOLLIN);
  }
  connection.writer.attach(connection.socket.get(), received);
  flush(connection);
}

void SocketWire::reconnect(const ConnectionPointer& connection) {
  connection->next_try = Clock::now() + reconnect_interval;
  auto socket = connect_over_network(connection->address);
  if (!socket) {
    if (socket.error().code == ErrorCode::peer_lost) lose(connection, socket.error());
    return;
  }
  prepare_network_socket(*socket, static_cast<int>(options_.silence.count()));
  connection->socket = std::move(*socket);
  connection->phase = Phase::connecting;
  std::lock_guard lock(mutex_);
  connection->events = 0;
  watch(*connection, EPOLLOUT);
}

}  // namespace tranship
