#include "fabric/wires/socket_wire.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <thread>

#include "base/refusals.hpp"
#include "fabric/messages/slots.hpp"

namespace tranship::fabric {
namespace {

constexpr std::chrono::milliseconds tick_interval{20};
/// Shortest time between two ticks in which the process was stopped: they come each 0.1 s at least.
constexpr std::chrono::seconds standstill_least{1};
/// Time limit for the messages of a closed connection to leave.
constexpr std::chrono::milliseconds linger_max{300};
/// Time limit for a client's authentication.
constexpr std::chrono::seconds proof_max{5};
constexpr std::chrono::milliseconds reconnect_interval{50};
/// Connections over a network that have not proved yet that they have the key.
constexpr std::size_t pending_max = 64;
/// Messages after which an acknowledgement is sent if no other message carries it. A bulk socket
/// has few messages in the other direction, and the sender keeps an array in use until then.
constexpr std::uint64_t acknowledge_every = 32;

Error read_nothing() {
  return {ErrorCode::peer_lost, "the other side has read nothing for too long"};
}

/// Ends a connection that has lost a message, from any thread.
void give_up(SocketConnection& connection) {
  connection.overflowed = true;
  connection.socket.shut_down();
}

/// Returns a connection and its bulk sockets, including those that are still being made.
std::vector<std::shared_ptr<SocketConnection>> all_sockets(
    const std::shared_ptr<SocketConnection>& connection) {
  auto all = connection->bulk_sockets.all();
  all.push_back(connection);
  return all;
}

}  // namespace

Result<std::unique_ptr<SocketWire>> SocketWire::open(Options options) {
  std::unique_ptr<SocketWire> wire(new SocketWire(std::move(options)));
  if (Status status = wire->start(); !status) return status.error();
  return wire;
}

SocketWire::~SocketWire() = default;

Status SocketWire::start() {
  if (Status status = listeners_.open(); !status) return status;
  if (!events_.open()) {
    return Error{ErrorCode::io,
                 std::string("no descriptors for connections: ") + std::strerror(errno),
                 "raise the limit (ulimit -n)"};
  }
  contact_.key = options_.key;
  contact_.identity = own_identity();
  if (options_.listen_locally) {
    auto name = listeners_.listen_locally(events_);
    if (!name) return name.error();
    contact_.local = *name;
  }
  if (options_.listen.empty()) return {};
  // Without these libraries no process could ever connect.
  if (options_.tls) {
    if (auto library = tls_library(); !library) return library.error();
  }
  if (auto proof = hmac_sha256(options_.key, {}); !proof) return proof.error();
  auto address = listeners_.listen_on_network(events_, options_.listen);
  if (!address) return address.error();
  contact_.network = *address;
  return {};
}

void SocketWire::accept_key(const Key& key) {
  std::lock_guard lock(key_mutex_);
  key_ = key;
}

Key SocketWire::key() const {
  std::lock_guard lock(key_mutex_);
  return key_;
}

bool SocketWire::allowed(uid_t user) const {
  return user == geteuid() ||
         std::find(options_.users.begin(), options_.users.end(), user) != options_.users.end();
}

void SocketWire::accept_one(FileDescriptor socket, bool local) {
  auto connection = std::make_shared<SocketConnection>(local, events_);
  if (local) {
    auto peer = peer_of(socket.get());
    if (!peer || !allowed(peer->user)) return;
    connection->peer = std::move(*peer);
    connection->writer.attach(socket.get(), 0);
    connection->announced = true;
  } else {
    const auto pending = connections_.where([](const auto& one) { return !one.announced; });
    if (pending.size() >= pending_max) lose(pending[0], {ErrorCode::peer_lost, "others came"});
    prepare_network_socket(socket, static_cast<int>(options_.silence.count()));
    connection->address = remote_address(socket);
  }
  connection->socket.reset(std::move(socket));
  const ConnectionId id = connections_.add(connection);
  if (!local) prove(connection);
  if (!connection->socket.watch(id, EPOLLIN)) return remove(connection);
  if (local) options_.handlers.arrived(id);
}

Result<ConnectionId> SocketWire::connect(const Contact& contact) {
  return refusals_as_errors([&]() -> Result<ConnectionId> {
    if (!contact.local.empty()) {
      auto made = connect_to_local(contact);
      const bool elsewhere = !made && made.error().code == ErrorCode::peer_lost;
      if (!elsewhere || contact.network.empty()) return made;
    }
    return connect_to_network(contact);
  });
}

Result<ConnectionId> SocketWire::connect_to_local(const Contact& contact) {
  auto socket = connect_locally(contact.local);
  if (!socket) return socket.error();
  auto peer = peer_of(socket->get());
  if (!peer) return peer.error();
  if (!allowed(peer->user)) {
    return Error{
        ErrorCode::permission,
        "the process at " + contact.text() + " belongs to user " + std::to_string(peer->user),
        "name that user in the setting users to trust it"};
  }
  auto connection = std::make_shared<SocketConnection>(true, events_);
  connection->client = true;
  connection->announced = true;
  connection->writer.attach(socket->get(), 0);
  connection->socket.reset(std::move(*socket));
  connection->peer = std::move(*peer);
  connection->address = "unix:@" + contact.local;
  const ConnectionId id = connections_.add(connection);
  if (connection->socket.watch(id, EPOLLIN)) return id;
  const std::string why = std::strerror(errno);
  remove(connection);
  return Error{ErrorCode::io, "the connection to " + contact.text() + " cannot be watched: " + why};
}

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
  auto connection = std::make_shared<SocketConnection>(false, events_);
  connection->key = contact.key ? *contact.key : options_.key;
  connection->address = contact.network;
  return add_network_client(connection, std::move(*socket));
}

/// Adds a client's connection over a socket that is being connected.
ConnectionId SocketWire::add_network_client(const ConnectionPointer& connection,
                                            FileDescriptor socket) {
  prepare_network_socket(socket, static_cast<int>(options_.silence.count()));
  connection->client = true;
  connection->announced = true;
  connection->socket.reset(std::move(socket));
  connection->phase = Phase::connecting;
  const ConnectionId id = connections_.add(connection);
  (void)connection->socket.watch(id, EPOLLOUT);
  return id;
}

/// Starts the proofs of either side, once the socket is connected.
void SocketWire::prove(const ConnectionPointer& connection) {
  SocketConnection& one = *connection;
  // How long a client waits for a new connection is its caller's decision.
  const bool waits = one.client && one.never_opened() && one.bulk_of == 0;
  const bool limited = one.deadline != Clock::time_point::max();
  if (!limited && !waits) one.deadline = Clock::now() + proof_max;
  const SocketProofs::Options options{one.socket.descriptor().get(), options_.tls,
                                      options_.checksums};
  one.phase = Phase::proving;
  if (!one.client) {
    one.proofs.emplace(options, [this] { return key(); });
    return;
  }
  ClientProof claim{{}, one.token, {}, one.received};
  if (one.bulk_of != 0) {
    const auto link = connections_.find(one.bulk_of);
    if (!link) return lose(connection, {ErrorCode::closed, "its connection was closed"});
    claim.joins = link->token;
  }
  one.proofs.emplace(options, one.key, one.address, claim);
}

/// Continues to connect and to prove as far as the socket allows.
void SocketWire::go_on(const ConnectionPointer& connection) {
  SocketConnection& one = *connection;
  if (one.phase == Phase::connecting) {
    if (const int error = socket_error(one.socket.descriptor()); error != 0) {
      const Error why{ErrorCode::peer_lost, std::strerror(error)};
      // If nothing listens at the address any more, the process has exited.
      return error == ECONNREFUSED ? lose(connection, why) : stay_detached(connection, why);
    }
    prove(connection);
    if (one.phase != Phase::proving) return;
  }
  const auto step = one.proofs->go_on();
  if (step == SocketProofs::Step::waits) {
    const bool writes = one.proofs->wants_to_write();
    (void)one.socket.watch(one.id, writes ? EPOLLIN | EPOLLOUT : EPOLLIN);
  } else if (step == SocketProofs::Step::failed) {
    const SocketProofs::Failure failure = one.proofs->failure();
    if (!failure.again) return lose(connection, failure.why);
    stay_detached(connection, failure.why);
  } else {
    SocketProofs proofs = std::move(*one.proofs);
    one.proofs.reset();
    if (step == SocketProofs::Step::claimed) return take_claim(connection, proofs);
    take_ready(connection, proofs);
  }
}

/// Handles a client that has proved that it has the key.
void SocketWire::take_claim(const ConnectionPointer& connection, SocketProofs& proofs) {
  const ClientProof& claim = proofs.claim();
  if (claim.session != SessionToken{}) return resume(connection, proofs);
  if (claim.joins != SessionToken{} && !begin_bulk_socket(connection, proofs)) return;
  ServerReady ready;
  (void)fill_random(connection->token);
  ready.session = connection->token;
  proofs.answer(ready);
  connection->announced = true;
  opened(connection, proofs, 0);
  // No message goes over a bulk socket before the client has sent one over it: this answer may be
  // lost, and then the client would not use the socket.
  if (connection->bulk_of == 0) options_.handlers.arrived(connection->id);
}

/// Returns the session of a client if it can be resumed: a closed one only waits for its sent
/// messages to leave. Null: there is none.
SocketWire::ConnectionPointer SocketWire::session_of(const SessionToken& token) const {
  const auto sessions = connections_.where([&](const SocketConnection& other) {
    const bool open = other.announced && other.phase != Phase::closing;
    return open && !other.local && !other.client && other.token == token;
  });
  return sessions.empty() ? nullptr : sessions[0];
}

/// Resumes the session of a client that has connected again, over its new socket.
void SocketWire::resume(const ConnectionPointer& connection, SocketProofs& proofs) {
  const ClientProof& claim = proofs.claim();
  const ConnectionPointer old = session_of(claim.session);
  ServerReady ready;
  ready.status = old ? 0 : 1;
  ready.session = claim.session;
  ready.received = old ? old->received : 0;
  proofs.answer(ready);
  if (!old) return lose(connection, {ErrorCode::peer_lost, "its session has ended"});
  old->writer.detach();
  old->reader.reset();
  old->socket.reset(connection->socket.release());
  connection->phase = Phase::closing;
  remove(connection);
  opened(old, proofs, claim.received);
}

/// Handles the listener's decision about a client.
void SocketWire::take_ready(const ConnectionPointer& connection, const SocketProofs& proofs) {
  SocketConnection& one = *connection;
  const bool is_new = one.never_opened();
  one.token = proofs.ready().session;
  opened(connection, proofs, proofs.ready().received);
  if (one.phase != Phase::open) return;
  if (one.bulk_of == 0) {
    if (is_new) one.bulk_sockets_left = options_.sockets - 1;
    return connect_next_bulk_socket(connection);
  }
  if (!is_new) return;
  const auto link = connections_.find(one.bulk_of);
  if (!link || !join_link(connection)) return close(one.id);
  one.writer.acknowledge(0);  // lets the other side use the socket, too
  connect_next_bulk_socket(link);
}

void SocketWire::opened(const ConnectionPointer& connection, const SocketProofs& proofs,
                        std::uint64_t received) {
  SocketConnection& one = *connection;
  if (one.overflowed) {
    return lose(connection, {ErrorCode::peer_lost, "it has read nothing for too long"});
  }
  one.phase = Phase::open;
  one.tls = proofs.tls();
  one.deadline = Clock::time_point::max();
  one.lives.opened(Clock::now(), received);
  one.writer.set_checksums(proofs.checksums());
  one.reader.set_checksums(proofs.checksums());
  (void)one.socket.watch(one.id, EPOLLIN);
  one.writer.attach(one.stream(), received);
  flush(one);
}

/// Handles a client that opens a further socket for a session's bulk.
bool SocketWire::begin_bulk_socket(const ConnectionPointer& connection, SocketProofs& proofs) {
  const ConnectionPointer link = session_of(proofs.claim().joins);
  if (link && link->bulk_of == 0 &&
      link->bulk_sockets.all().size() + 1 < static_cast<std::size_t>(sockets_max)) {
    connection->bulk_of = link->id;
    link->bulk_sockets.begin_to_join(connection);
    return true;
  }
  ServerReady ready;
  ready.status = 1;
  proofs.answer(ready);
  lose(connection, {ErrorCode::peer_lost, "there is no session that it could carry bulk for"});
  return false;
}

/// Makes messages with bulk use a bulk socket from now on. Returns false if its connection has
/// ended meanwhile.
bool SocketWire::join_link(const ConnectionPointer& connection) {
  const auto link = connections_.find(connection->bulk_of);
  if (!link || link->phase == Phase::closing) return false;
  link->bulk_sockets.join(connection);
  return true;
}

/// Makes a connection's bulk sockets one after another, so that each client takes only one of the
/// few places for unauthenticated connections. The link works without sockets that cannot be made.
void SocketWire::connect_next_bulk_socket(const ConnectionPointer& link) {
  if (link->bulk_sockets_left == 0 || link->phase != Phase::open) return;
  if (link->bulk_sockets.joining()) return;  // the next socket follows that one
  --link->bulk_sockets_left;
  // The socket goes to the same machine, in case a name has several, and without a look-up, which
  // may take long.
  auto socket = connect_over_network(remote_address(link->socket.descriptor()));
  if (!socket) return;
  auto bulk = std::make_shared<SocketConnection>(false, events_);
  bulk->bulk_of = link->id;
  bulk->key = link->key;
  bulk->address = link->address;
  link->bulk_sockets.begin_to_join(bulk);
  add_network_client(bulk, std::move(*socket));
}

void SocketWire::send(ConnectionId id, const WireMessage& message) {
  auto connection = connections_.find(id);
  if (!connection || message.body.size() > body_bytes_max) return;
  if (!connection->local) {
    if (auto bulk = connection->bulk_sockets.way_of(message)) connection = std::move(bulk);
  }
  // The thread of progress() writes long messages, while the caller prepares the next one.
  const bool now = message.bulk.empty();
  // If the queue is full, the other side has not read for long: the connection ends, since it
  // cannot go on without this message.
  if (!connection->writer.send(message, now)) return give_up(*connection);
  if (connection->writer.idle() || connection->phase != Phase::open) return;
  (void)connection->socket.watch(connection->id, connection->writer);
}

void SocketWire::keep_bulk(ConnectionId id) {
  const auto connection = connections_.find(id);
  if (!connection) return;
  for (const auto& one : all_sockets(connection)) {
    if (!one->writer.keep_bulk()) give_up(*one);
  }
}

bool SocketWire::in_order(ConnectionId id) const {
  const auto connection = connections_.find(id);
  if (!connection || connection->local) return true;
  const auto further = connection->bulk_sockets.all();
  return std::all_of(further.begin(), further.end(),
                     [](const auto& one) { return one->writer.delivered(); });
}

WirePeer SocketWire::peer(ConnectionId id) const {
  const auto connection = connections_.find(id);
  if (!connection) return {};
  return {connection->local, connection->peer.pid, connection->peer.pidfd.get(),
          connection->address};
}

bool SocketWire::progress() {
  std::array<epoll_event, 64> room{};
  const auto came = events_.wait(room, 0);
  for (const epoll_event& event : came) {
    const std::uint64_t tag = event.data.u64;
    const auto connection = connections_.find(tag);
    try {
      if (tag == Listeners::local_tag || tag == Listeners::network_tag) {
        listeners_.accept(tag, [&](FileDescriptor socket) {
          accept_one(std::move(socket), tag == Listeners::local_tag);
        });
      } else if (connection) {
        handle(connection, event.events);
      }
    } catch (const std::bad_alloc&) {
      // A connection whose message does not fit into memory ends; the others continue.
      if (connection) lose(connection, {ErrorCode::out_of_memory, "no memory for its messages"});
    }
  }
  const auto now = Clock::now();
  if (now < next_tick_) return !came.empty();
  allow_for_standstill(now);
  const bool ticked = tick();
  next_tick_ = now + tick_interval;
  return !came.empty() || ticked;
}

void SocketWire::handle(const ConnectionPointer& connection, std::uint32_t events) {
  if (connection->phase == Phase::open || connection->phase == Phase::closing) {
    if ((events & EPOLLOUT) != 0) flush(*connection);
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read(connection);
  } else if (connection->phase != Phase::detached) {
    go_on(connection);
    // Bytes after the last step may have been read with it: the socket has no event for them.
    if (connection->phase == Phase::open) read(connection);
  }
}

void SocketWire::flush(SocketConnection& connection) {
  (void)connection.writer.flush();
  if (connection.phase != Phase::open && connection.phase != Phase::closing) return;
  (void)connection.socket.watch(connection.id, connection.writer);
}

void SocketWire::read(const ConnectionPointer& connection) {
  if (connection->phase == Phase::closing) {
    // Messages are no longer read, but the other side's end of the connection is noticed.
    std::array<std::byte, 4096> dropped{};
    const int socket = connection->socket.descriptor().get();
    const ssize_t length = recv(socket, dropped.data(), dropped.size(), 0);
    if (length == 0 || (length < 0 && errno != EAGAIN)) remove(connection);
    return;
  }
  FrameReader::Handlers handlers;
  handlers.place = [&](const MessageHeader& header, std::span<const std::byte> body,
                       std::int64_t offset, std::int64_t left) {
    return options_.handlers.place(connection->link(), header, body, offset, left);
  };
  handlers.frame = [&](const FrameHeader& frame, std::span<const std::byte> body,
                       std::span<FileDescriptor> descriptors) {
    return on_frame(connection, frame, body, descriptors);
  };
  bool any = false;
  const auto outcome = connection->reader.read(connection->stream(), handlers, any);
  const int number = errno;
  if (connection->phase != Phase::open) return;  // a handler has closed the connection
  if (any && !connection->local) {
    connection->writer.acknowledge(connection->bulk_of == 0 ? acknowledge_every : 1);
    if (!connection->writer.idle()) flush(*connection);
  }
  switch (outcome) {
    case FrameReader::Outcome::drained:
    case FrameReader::Outcome::stopped: return;
    case FrameReader::Outcome::ended:
      return broken(connection, "the other side ended the connection");
    case FrameReader::Outcome::broken: return broken(connection, std::strerror(number));
    case FrameReader::Outcome::damaged:
      return broken(connection, "what it sent was changed on the way");
    case FrameReader::Outcome::refused:
      return lose(connection, {ErrorCode::invalid_argument, "it breaks the protocol"});
  }
}

bool SocketWire::on_frame(const ConnectionPointer& connection, const FrameHeader& frame,
                          std::span<const std::byte> body, std::span<FileDescriptor> descriptors) {
  if (!connection->local) {
    if (!take_sequence(connection, frame)) return false;
    if (frame.type == MessageType::acknowledge) return true;
  }
  options_.handlers.message(connection->link(), {frame.type, frame.slot, frame.call}, body,
                            descriptors);
  return connection->phase == Phase::open;
}

/// Takes note of a message over a network. Returns false if it ends the connection.
bool SocketWire::take_sequence(const ConnectionPointer& connection, const FrameHeader& frame) {
  SocketConnection& one = *connection;
  // The client has opened this bulk socket, and would make it again: messages may go over it.
  if (one.bulk_of != 0 && !one.client && !join_link(connection)) {
    lose(connection, {ErrorCode::peer_lost, "its session has ended"});
    return false;
  }
  one.lives.message_arrived();
  one.writer.acknowledged(frame.acknowledged);
  if (frame.type == MessageType::acknowledge) return true;
  if (frame.sequence != one.received + 1) {
    lose(connection, {ErrorCode::peer_lost, "its messages are out of order"});
    return false;
  }
  one.received = frame.sequence;
  one.writer.set_received(frame.sequence);
  if (frame.type != MessageType::submitted || frame.slot >= slots_max) return true;
  const bool is_bulk = one.bulk_of != 0;
  if (const auto link = is_bulk ? connections_.find(one.bulk_of) : connection) {
    link->bulk_sockets.note(frame.slot, is_bulk ? connection : nullptr);
  }
  return true;
}

/// Handles a broken connection: on one machine it is lost, as its process has exited; over a
/// network it may be made again.
void SocketWire::broken(const ConnectionPointer& connection, const std::string& why) {
  SocketConnection& one = *connection;
  if (one.overflowed) return lose(connection, read_nothing());
  if (one.local || !one.announced) return lose(connection, {ErrorCode::peer_lost, why});
  one.writer.detach();
  one.reader.reset();
  one.proofs.reset();
  one.tls.reset();
  one.trouble = why;
  one.socket.reset();
  const auto now = Clock::now();
  if (one.phase == Phase::open) {
    one.deadline = now + options_.reconnect;
    if (one.lives.broke(now)) {
      return lose(connection, {ErrorCode::peer_lost,
                               "its connection breaks each time that it is made anew: " + why});
    }
  }
  one.phase = Phase::detached;
  one.next_try = now;
}

/// Detaches a connection that was open before, which is then tried again within its time limit;
/// ends a new one.
void SocketWire::stay_detached(const ConnectionPointer& connection, const Error& why) {
  if (connection->never_opened() || !connection->client) return lose(connection, why);
  broken(connection, why.text());
  connection->next_try = Clock::now() + reconnect_interval;
}

void SocketWire::reconnect(const ConnectionPointer& connection) {
  connection->next_try = Clock::now() + reconnect_interval;
  auto socket = connect_over_network(connection->address);
  if (!socket) {
    if (socket.error().code == ErrorCode::peer_lost) lose(connection, socket.error());
    return;
  }
  prepare_network_socket(*socket, static_cast<int>(options_.silence.count()));
  connection->socket.reset(std::move(*socket));
  connection->phase = Phase::connecting;
  (void)connection->socket.watch(connection->id, EPOLLOUT);
}

void SocketWire::remove(const ConnectionPointer& connection) {
  if (const auto link = connections_.find(connection->bulk_of)) {
    link->bulk_sockets.give_up(connection);
  }
  connections_.remove(connection->id);
}

/// Ends a connection. If a bulk socket has carried messages, some may be lost with it: then its
/// link ends, too.
void SocketWire::lose(const ConnectionPointer& connection, const Error& error) {
  const bool tell = connection->announced && connection->bulk_of == 0;
  for (const auto& one : all_sockets(connection)) {
    one->writer.detach();
    one->phase = Phase::closing;
    remove(one);
  }
  if (tell) options_.handlers.lost(connection->id, error);
  const auto link = connections_.find(connection->bulk_of);
  if (!link) return;
  if (link->bulk_sockets.has_joined(connection)) return lose(link, error);
  if (connection->client) connect_next_bulk_socket(link);  // the link continues without this socket
}

void SocketWire::close(ConnectionId id) {
  const auto connection = connections_.find(id);
  if (!connection) return;
  for (const auto& one : all_sockets(connection)) close_socket(one);
}

void SocketWire::close_socket(const ConnectionPointer& connection) {
  if (connection->phase == Phase::closing) return;  // the sent messages are leaving
  if (connection->phase != Phase::open || !connection->writer.flush()) {
    connection->writer.detach();
    connection->phase = Phase::closing;
    return remove(connection);
  }
  // The memory of bulk may be freed before the other side has read the bytes.
  connection->writer.forget_written();
  (void)connection->writer.keep_bulk();
  connection->phase = Phase::closing;
  connection->deadline = Clock::now() + linger_max;
}

/// Extends time limits by the time for which this process was stopped: the other side could not be
/// heard meanwhile.
void SocketWire::allow_for_standstill(Clock::time_point now) {
  const auto late = now - next_tick_;
  if (next_tick_ == Clock::time_point{} || late < standstill_least) return;
  const auto limited =
      connections_.where([](const auto& one) { return one.deadline != Clock::time_point::max(); });
  for (const auto& connection : limited) connection->deadline += late;
}

/// Handles elapsed time limits, and due attempts to reconnect.
bool SocketWire::tick() {
  const auto all = connections_.where([](const auto& one) { return one.phase != Phase::open; });
  const auto now = Clock::now();
  for (const auto& connection : all) {
    if (connection->phase == Phase::closing) {
      if (connection->writer.idle() || now >= connection->deadline) remove(connection);
    } else if (connection->overflowed) {
      lose(connection, read_nothing());
    } else if (now >= connection->deadline) {
      const std::string& trouble = connection->trouble;
      const std::string why = trouble.empty() ? trouble : " (" + trouble + ")";
      lose(connection,
           {ErrorCode::peer_lost, connection->announced
                                      ? "the connection broke" + why + ", and no new one came"
                                      : "it did not prove who it is in time"});
    } else if (connection->phase == Phase::detached && connection->client &&
               now >= connection->next_try) {
      reconnect(connection);
    }
  }
  return !all.empty();
}

void SocketWire::drain() {
  // The listeners are closed now, since arrays of peers may keep this object alive: clients that
  // connect are then refused at once.
  listeners_.close();
  const auto all = [&] { return connections_.where([](const auto&) { return true; }); };
  for (const auto& connection : all()) close(connection->id);
  const auto end = Clock::now() + linger_max;
  while (!all().empty() && Clock::now() < end) {
    if (!progress()) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

}  // namespace tranship::fabric
