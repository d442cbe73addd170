// Authentication of both ends of a network connection, and resumption of a broken one.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "fabric/wires/socket_wire.hpp"

namespace tranship::fabric {
namespace {

/// Time limit for a client's authentication.
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
  return {ErrorCode::permission, "the process at " + address + " has another key",
          "use its contact file, or set TRANSHIP_KEY to the same on both "
          "sides"};
}

Error needs_tls(const std::string& address) {
  return {ErrorCode::permission, "the process at " + address +
                                     " takes encrypted connections only: set TRANSHIP_TLS=1 here "
                                     "too"};
}

Error has_no_tls(const std::string& address) {
  return {ErrorCode::permission, "the process at " + address +
                                     " does not encrypt its connections, and this one is to: set "
                                     "TRANSHIP_TLS=1 there too"};
}

Error other_version() {
  return {ErrorCode::unsupported,
          "what listens there is another version of tranship: install the same on both sides"};
}

/// Returns whether bytes begin like a TLS handshake: a record of type 22, version 3.x.
bool is_tls(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{22} && bytes[1] == std::byte{3};
}

}  // namespace

Result<ConnectionId> SocketWire::connect_to_network(const Contact& contact) {
  if (contact.network.empty()) {
    return Error{ErrorCode::peer_lost,
                 "the process there listens on its own machine only; let it listen on a network "
                 "too: set TRANSHIP_LISTEN=0.0.0.0:0 there"};
  }
  if (options_.tls) {
    if (auto library = tls_library(); !library) return library.error();
  }
  auto socket = connect_over_network(contact.network);
  if (!socket) return socket.error();
  auto connection = std::make_shared<Connection>(false);
  connection->client = true;
  connection->announced = true;
  connection->key = contact.key ? *contact.key : options_.key;
  connection->address = contact.network;
  return add_network_client(std::move(connection), std::move(*socket));
}

/// Adds a client's connection over a socket that is being connected.
ConnectionId SocketWire::add_network_client(ConnectionPointer connection, FileDescriptor socket) {
  connection->socket = std::move(socket);
  connection->phase = Phase::connecting;
  prepare_network_socket(connection->socket, static_cast<int>(options_.silence.count()));
  Connection& added = *connection;
  const ConnectionId id = add(std::move(connection));
  std::lock_guard lock(mutex_);
  watch(added, EPOLLOUT);
  return id;
}

/// Starts the handshake of either side, once the socket is connected.
void SocketWire::start_handshake(Connection& connection) {
  connection.greeting.clear();
  // How long a client waits for a new connection is its caller's decision.
  const bool waits = connection.client && connection.token == SessionToken{};
  const bool limited = connection.deadline != Clock::time_point::max();
  if (!limited && (!waits || connection.bulk_of != 0)) {
    connection.deadline = Clock::now() + proof_max;
  }
  if (!options_.tls) return start_proofs(connection);
  const auto role = connection.client ? TlsStream::Role::client : TlsStream::Role::server;
  const Key known = connection.client ? connection.key : key();
  auto made = TlsStream::make({connection.socket.get(), role, known});
  if (!made) return stay_detached(find(connection.id), made.error());
  connection.tls = std::move(*made);
  connection.phase = Phase::securing;
  if (connection.client) (void)secure(find(connection.id));  // the client begins
}

/// Continues the TLS handshake. Returns true when it is complete.
bool SocketWire::secure(const ConnectionPointer& connection) {
  const auto step = connection->tls->shake_hands();
  if (step == TlsStream::Step::failed) {
    not_secured(connection);
    return false;
  }
  const bool writes = step == TlsStream::Step::waits && connection->tls->wants_to_write();
  {
    std::lock_guard lock(mutex_);
    watch(*connection, writes ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }
  if (step == TlsStream::Step::waits) return false;
  start_proofs(*connection);
  return true;
}

/// Handles a failed TLS handshake: the connection never falls back to unencrypted messages, and
/// both the other side and this side's caller get the reason.
void SocketWire::not_secured(const ConnectionPointer& connection) {
  const auto greeting = connection->tls->greeting_in_the_clear();
  if (!greeting.empty() && !connection->client) {
    connection->tls.reset();
    return refuse(*connection, option_refused_without_tls);
  }
  if (!greeting.empty()) {
    ServerHello answer;
    std::memcpy(&answer, greeting.data(), std::min(greeting.size(), sizeof answer));
    const bool same = answer.version == wire_version_current;
    return stay_detached(connection, same ? has_no_tls(connection->address) : other_version());
  }
  const std::string reason = connection->tls->failure();
  if (!connection->client || reason.empty()) {
    return stay_detached(connection, {ErrorCode::peer_lost,
                                      "the other side ended the connection while its "
                                      "encryption was set up"});
  }
  stay_detached(connection, {ErrorCode::permission,
                             wrong_key(connection->address).message + " (OpenSSL: " + reason + ")",
                             wrong_key(connection->address).hint});
}

/// Sends a client, unencrypted, the reason for its refusal, and ends its connection.
void SocketWire::refuse(Connection& connection, std::uint32_t why) {
  std::array<std::byte, 4096> dropped{};  // unread bytes would reset the connection first
  while (recv(connection.socket.get(), dropped.data(), dropped.size(), MSG_DONTWAIT) > 0) continue;
  ServerHello answer;
  answer.options = why;
  (void)write_step(connection, bytes_of(answer));
  lose(find(connection.id), {ErrorCode::permission, "a connection that was refused"});
}

void SocketWire::start_proofs(Connection& connection) {
  if (!connection.client) {
    connection.phase = Phase::awaiting_hello;
    return;
  }
  connection.hello = {};
  connection.hello.options = options_.checksums ? option_checksums : 0;
  (void)fill_random(connection.hello.nonce);
  connection.phase = Phase::awaiting_server_hello;
  (void)write_step(connection, bytes_of(connection.hello));
}

/// Continues the proofs as far as the socket allows.
void SocketWire::go_on(const ConnectionPointer& connection) {
  Connection& one = *connection;
  if (one.phase == Phase::connecting) {
    if (const int error = socket_error(one.socket); error != 0) {
      const Error why{ErrorCode::peer_lost, std::strerror(error)};
      // If nothing listens at the address any more, the process has exited.
      return error == ECONNREFUSED ? lose(connection, why) : stay_detached(connection, why);
    }
    {
      std::lock_guard lock(mutex_);
      watch(one, EPOLLIN);
    }
    start_handshake(one);
    return;
  }
  if (one.phase == Phase::securing && !secure(connection)) return;
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

/// Detaches a connection that was open before, which is then tried again within its time limit;
/// ends a new one.
void SocketWire::stay_detached(const ConnectionPointer& connection, const Error& why) {
  if (connection->token == SessionToken{} || !connection->client) return lose(connection, why);
  broken(connection, why.text());
  connection->next_try = Clock::now() + reconnect_interval;
}

/// Reads a step of `bytes` bytes. Returns true when it is complete.
bool SocketWire::read_step(Connection& connection, std::size_t bytes, bool& failed) {
  const std::size_t before = connection.greeting.size();
  connection.greeting.resize(bytes);
  iovec piece{connection.greeting.data() + before, bytes - before};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  const ssize_t length = connection.stream().receive(message);
  const bool nothing = length < 0 && (errno == EAGAIN || errno == EINTR);
  failed = !nothing && length <= 0;
  connection.greeting.resize(before + (length > 0 ? static_cast<std::size_t>(length) : 0));
  return connection.greeting.size() == bytes;
}

/// Writes a step, which the socket accepts completely or not at all: it is shorter than any
/// socket's buffer, which is empty.
bool SocketWire::write_step(Connection& connection, std::span<const std::byte> bytes) {
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  return connection.stream().send(message) == static_cast<ssize_t>(bytes.size());
}

bool SocketWire::take_hello(Connection& connection) {
  const auto held = find(connection.id);
  connection.hello = value_of<ClientHello>(connection.greeting);
  if (is_tls(connection.greeting)) {
    refuse(connection, option_refused_with_tls);
    return false;
  }
  if (connection.hello.magic != ClientHello::magic_value) {
    lose(held, {ErrorCode::invalid_argument, "a connection that is not tranship's"});
    return false;
  }
  if (connection.hello.version != wire_version_current) {
    refuse(connection, 0);  // the answer carries this side's version
    return false;
  }
  ServerHello answer;
  answer.options = options_.checksums ? option_checksums : 0;
  (void)fill_random(answer.nonce);
  const auto proof = proof_of(key(), ProvingSide::server, connection.hello, answer);
  if (!proof) {
    lose(held, proof.error());
    return false;
  }
  answer.proof = *proof;
  connection.answer = answer;
  connection.phase = Phase::awaiting_proof;
  (void)write_step(connection, bytes_of(answer));
  return true;
}

bool SocketWire::take_server_hello(Connection& connection) {
  const auto held = find(connection.id);
  const auto answer = value_of<ServerHello>(connection.greeting);
  // A connection that was open before is tried again: the answer may have been changed on the way.
  if (answer.magic != ClientHello::magic_value) {
    stay_detached(held, {ErrorCode::invalid_argument, "what listens there is not tranship"});
    return false;
  }
  if (answer.version != wire_version_current) {
    stay_detached(held, other_version());
    return false;
  }
  if ((answer.options & option_refused_without_tls) != 0) {
    stay_detached(held, needs_tls(connection.address));
    return false;
  }
  const auto expected = proof_of(connection.key, ProvingSide::server, connection.hello, answer);
  if (!expected || !same_digest(*expected, answer.proof)) {
    stay_detached(held, expected ? wrong_key(connection.address) : expected.error());
    return false;
  }
  ClientProof proof;
  proof.session = connection.token;
  if (connection.bulk_of != 0) {
    const auto link = find(connection.bulk_of);
    if (!link) {
      lose(held, {ErrorCode::closed, "its connection was closed"});
      return false;
    }
    proof.joins = link->token;
  }
  proof.received = connection.received;
  proof.proof = *proof_of(connection.key, ProvingSide::client, connection.hello, answer, proof);
  connection.answer = answer;
  connection.phase = Phase::awaiting_ready;
  (void)write_step(connection, bytes_of(proof));
  return true;
}

bool SocketWire::take_proof(const ConnectionPointer& connection) {
  const auto given = value_of<ClientProof>(connection->greeting);
  const auto expected =
      proof_of(key(), ProvingSide::client, connection->hello, connection->answer, given);
  if (!expected || !same_digest(*expected, given.proof)) {
    lose(connection, {ErrorCode::permission, "somebody without the key"});
    return false;
  }
  if (given.session != SessionToken{}) return take_session(connection, given);
  if (given.joins != SessionToken{} && !take_bulk_socket(connection, given)) return false;
  ServerReady ready;
  (void)fill_random(connection->token);
  ready.session = connection->token;
  ready.checksum = checksum_of(ready);
  (void)write_step(*connection, bytes_of(ready));
  connection->announced = true;
  opened(*connection, 0);
  // No message goes over a bulk socket before the client has sent one over it: this answer may be
  // lost, and then the client would not use the socket.
  if (connection->bulk_of == 0) options_.handlers.arrived(connection->id);
  return connection->phase == Phase::open;
}

/// Returns the session of a client if it can be resumed: a closed one only waits for its sent
/// messages to leave. Null: there is none.
SocketWire::ConnectionPointer SocketWire::session_of(const SessionToken& token) const {
  std::lock_guard lock(mutex_);
  for (const auto& [id, other] : connections_) {
    const bool open = other->announced && other->phase != Phase::closing;
    if (open && !other->local && !other->client && other->token == token) return other;
  }
  return nullptr;
}

/// Handles a client that resumes a session.
bool SocketWire::take_session(const ConnectionPointer& connection, const ClientProof& given) {
  const ConnectionPointer old = session_of(given.session);
  ServerReady ready;
  ready.status = old ? 0 : 1;
  ready.session = given.session;
  ready.received = old ? old->received : 0;
  ready.checksum = checksum_of(ready);
  (void)write_step(*connection, bytes_of(ready));
  if (old) {
    resume(old, connection, given.received);
  } else {
    lose(connection, {ErrorCode::peer_lost, "its session has ended"});
  }
  return false;
}

/// Handles a client that opens a further socket for a session's bulk.
bool SocketWire::take_bulk_socket(const ConnectionPointer& connection, const ClientProof& given) {
  const ConnectionPointer link = session_of(given.joins);
  const bool joins = link && link->bulk_of == 0 &&
                     all_sockets(link).size() < static_cast<std::size_t>(sockets_max);
  if (joins) {
    connection->bulk_of = link->id;
    std::lock_guard lock(mutex_);
    link->bulk_sockets_joining.push_back(connection);
    return true;
  }
  ServerReady ready;
  ready.status = 1;
  ready.checksum = checksum_of(ready);
  (void)write_step(*connection, bytes_of(ready));
  lose(connection, {ErrorCode::peer_lost, "there is no session that it could carry bulk for"});
  return false;
}

/// Makes messages with bulk use the socket from now on. Returns false if its connection has ended
/// meanwhile.
bool SocketWire::add_bulk_socket(const ConnectionPointer& connection) {
  const auto link = find(connection->bulk_of);
  if (!link || link->phase == Phase::closing) return false;
  if (has_joined(connection, link)) return true;
  std::lock_guard lock(mutex_);
  std::erase(link->bulk_sockets_joining, connection);
  link->bulk_sockets.push_back(connection);
  return true;
}

bool SocketWire::take_ready(Connection& connection) {
  const auto ready = value_of<ServerReady>(connection.greeting);
  if (ready.checksum != checksum_of(ready)) {
    stay_detached(find(connection.id), {ErrorCode::peer_lost, "its answer was changed on the way"});
    return false;
  }
  if (ready.status != 0) {
    lose(find(connection.id), {ErrorCode::peer_lost, "the connection broke for too long"});
    return false;
  }
  const auto held = find(connection.id);
  const bool is_new = connection.token == SessionToken{};
  if (is_new ? ready.session == SessionToken{} : ready.session != connection.token) {
    lose(held, {ErrorCode::invalid_argument, "what listens there took up another session"});
    return false;
  }
  connection.token = ready.session;
  opened(connection, ready.received);
  if (connection.phase != Phase::open) return false;
  if (connection.bulk_of == 0) {
    if (is_new) connection.bulk_sockets_left = options_.sockets - 1;
    connect_next_bulk_socket(held);
    return true;
  }
  if (!is_new) return true;
  const auto link = find(connection.bulk_of);
  if (!link || !add_bulk_socket(held)) {
    close(connection.id);
    return false;
  }
  connection.writer.acknowledge(0);  // lets the other side use the socket, too
  connect_next_bulk_socket(link);
  return true;
}

/// Makes a connection's bulk sockets one after another, so that each client takes only one of the
/// few places for unauthenticated connections. The link works without sockets that cannot be made.
void SocketWire::connect_next_bulk_socket(const ConnectionPointer& link) {
  if (link->bulk_sockets_left == 0 || link->phase != Phase::open) return;
  {
    std::lock_guard lock(mutex_);
    if (!link->bulk_sockets_joining.empty()) return;  // the next socket follows that one
  }
  --link->bulk_sockets_left;
  // The socket goes to the same machine, in case a name has several, and without a look-up, which
  // may take long.
  auto socket = connect_over_network(remote_address(link->socket));
  if (!socket) return;
  auto bulk = std::make_shared<Connection>(false);
  bulk->client = true;
  bulk->announced = true;
  bulk->bulk_of = link->id;
  bulk->key = link->key;
  bulk->address = link->address;
  {
    std::lock_guard lock(mutex_);
    link->bulk_sockets_joining.push_back(bulk);
  }
  add_network_client(std::move(bulk), std::move(*socket));
}

/// Resumes over the new socket the session of a client that has connected again.
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
  old->tls = std::move(fresh->tls);
  old->hello = fresh->hello;
  old->answer = fresh->answer;
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
  connection.opened_at = Clock::now();
  if (received > connection.resumed_from) connection.short_lives = 0;
  connection.resumed_from = received;
  const std::uint32_t asked = connection.hello.options | connection.answer.options;
  connection.writer.set_checksums((asked & option_checksums) != 0);
  connection.reader.set_checksums((asked & option_checksums) != 0);
  {
    std::lock_guard lock(mutex_);
    watch(connection, EPOLLIN);
  }
  connection.writer.attach(connection.stream(), received);
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

}  // namespace tranship::fabric
