#include "fabric/wires/socket_wire.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
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

constexpr std::uint64_t local_tag = ~std::uint64_t{0};
constexpr std::uint64_t network_tag = local_tag - 1;
constexpr std::chrono::milliseconds tick_interval{20};
/// Shortest time between two ticks in which the process was stopped: they come each 0.1 s at least.
constexpr std::chrono::seconds standstill_least{1};
/// Time limit for the messages of a closed connection to leave.
constexpr std::chrono::milliseconds linger_max{300};
/// Shortest life of a connection that is not short; after short_lives_max short lives in a row
/// without a received message, the connection is lost. A path that damages every message would
/// otherwise be reconnected forever.
constexpr std::chrono::seconds long_life{1};
constexpr int short_lives_max = 50;
/// Messages after which an acknowledgement is sent if no other message carries it. A bulk socket
/// has few messages in the other direction, and the sender keeps an array in use until then.
constexpr std::uint64_t acknowledge_every = 32;

Error read_nothing() {
  return {ErrorCode::peer_lost, "the other side has read nothing for too long"};
}

FileDescriptor spare_descriptor() {
  return FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

}  // namespace

Result<std::unique_ptr<SocketWire>> SocketWire::open(Options options) {
  std::unique_ptr<SocketWire> wire(new SocketWire(std::move(options)));
  if (Status status = wire->start(); !status) return status.error();
  return wire;
}

Status SocketWire::start() {
  epoll_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  spare_ = spare_descriptor();
  if (!epoll_ || !spare_) {
    return Error{ErrorCode::io,
                 std::string("no descriptors for connections: ") + std::strerror(errno),
                 "raise the limit (ulimit -n)"};
  }
  key_ = options_.key;
  contact_.key = options_.key;
  contact_.identity = own_identity();
  const auto look_at = [&](const FileDescriptor& listener, std::uint64_t tag) -> Status {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = tag;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener.get(), &event) == 0) return {};
    return Error{ErrorCode::io, std::string("cannot watch a socket: ") + std::strerror(errno)};
  };
  if (options_.listen_locally) {
    auto listener = tranship::listen_locally();
    if (!listener) return listener.error();
    local_listener_ = std::move(listener->first);
    contact_.local = listener->second;
    if (Status status = look_at(local_listener_, local_tag); !status) return status;
  }
  if (!options_.listen.empty()) {
    // Without these libraries no process could ever connect.
    if (options_.tls) {
      if (auto library = tls_library(); !library) return library.error();
    }
    if (auto proof = hmac_sha256(options_.key, {}); !proof) return proof.error();
    auto listener = listen_on_network(options_.listen);
    if (!listener) return listener.error();
    network_listener_ = std::move(listener->first);
    contact_.network = listener->second;
    if (Status status = look_at(network_listener_, network_tag); !status) return status;
  }
  return {};
}

SocketWire::~SocketWire() = default;

void SocketWire::accept_key(const Key& key) {
  std::lock_guard lock(mutex_);
  key_ = key;
}

Key SocketWire::key() const {
  std::lock_guard lock(mutex_);
  return key_;
}

bool SocketWire::allowed(uid_t user) const {
  return user == geteuid() ||
         std::find(options_.users.begin(), options_.users.end(), user) != options_.users.end();
}

ConnectionId SocketWire::add(ConnectionPointer connection) {
  std::lock_guard lock(mutex_);
  connection->id = ++last_id_;
  connections_[connection->id] = connection;
  return connection->id;
}

SocketWire::ConnectionPointer SocketWire::find(ConnectionId id) const {
  std::lock_guard lock(mutex_);
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : found->second;
}

void SocketWire::remove(ConnectionId id) {
  std::lock_guard lock(mutex_);
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  const auto link = connections_.find(found->second->bulk_of);
  if (link != connections_.end()) std::erase(link->second->bulk_sockets_joining, found->second);
  connections_.erase(found);
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
  auto connection = std::make_shared<Connection>(true);
  connection->client = true;
  connection->announced = true;
  connection->socket = std::move(*socket);
  connection->peer = std::move(*peer);
  connection->address = "unix:@" + contact.local;
  connection->writer.attach(connection->socket.get(), 0);
  const ConnectionId id = add(connection);
  {
    std::lock_guard lock(mutex_);
    if (watch(*connection, EPOLLIN)) return id;
  }
  const std::string why = std::strerror(errno);
  remove(id);
  return Error{ErrorCode::io, "the connection to " + contact.text() + " cannot be watched: " + why};
}

void SocketWire::send(ConnectionId id, const WireMessage& message) {
  auto connection = find(id);
  if (!connection || message.body.size() > body_bytes_max) return;
  if (!connection->local) connection = way_of(connection, message);
  // The thread of progress() writes long messages, while the caller prepares the next one.
  const bool now = message.bulk.empty();
  // If the queue is full, the other side has not read for long: the connection ends, since it
  // cannot go on without this message.
  if (!connection->writer.send(message, now)) return give_up(*connection);
  if (connection->writer.idle() || connection->phase != Phase::open) return;
  std::lock_guard lock(mutex_);
  watch(*connection, EPOLLIN | EPOLLOUT);
}

/// Returns the socket for a message. An answer goes over the socket of its question, whose bytes it
/// acknowledges; other messages with bulk go over the bulk socket with the least to write, if
/// possible one that is open. A sender whose message depends on an earlier one with bulk waits for
/// that one's answer, or for in_order().
SocketWire::ConnectionPointer SocketWire::way_of(const ConnectionPointer& connection,
                                                 const WireMessage& message) {
  std::lock_guard lock(mutex_);
  if (message.header.type == MessageType::answered) {
    const auto found = connection->brought_by.find(message.header.slot);
    if (found != connection->brought_by.end()) {
      auto brought = std::move(found->second);
      connection->brought_by.erase(found);
      return brought;
    }
  }
  if (message.bulk.empty() || connection->bulk_sockets.empty()) return connection;
  return *std::min_element(
      connection->bulk_sockets.begin(), connection->bulk_sockets.end(),
      [](const auto& a, const auto& b) {
        const bool a_stands = a->phase == Phase::open;
        const bool b_stands = b->phase == Phase::open;
        return a_stands != b_stands ? a_stands : a->writer.backlog() < b->writer.backlog();
      });
}

/// Remembers which bulk socket has brought a command.
void SocketWire::note_way(const Connection& connection, const FrameHeader& frame) {
  if (frame.type != MessageType::submitted || frame.slot >= slots_max) return;
  std::lock_guard lock(mutex_);
  const auto link = connections_.find(connection.link());
  if (link == connections_.end()) return;
  auto& brought_by = link->second->brought_by;
  if (connection.bulk_of == 0) {
    brought_by.erase(frame.slot);
  } else if (const auto own = connections_.find(connection.id); own != connections_.end()) {
    brought_by[frame.slot] = own->second;
  }
}

/// Returns a connection and its bulk sockets, including those that are still being made.
std::vector<SocketWire::ConnectionPointer> SocketWire::all_sockets(
    const ConnectionPointer& connection) const {
  std::lock_guard lock(mutex_);
  std::vector<ConnectionPointer> all = connection->bulk_sockets;
  all.insert(all.end(), connection->bulk_sockets_joining.begin(),
             connection->bulk_sockets_joining.end());
  all.push_back(connection);
  return all;
}

/// Returns whether messages go over a bulk socket of `link`.
bool SocketWire::has_joined(const ConnectionPointer& connection,
                            const ConnectionPointer& link) const {
  std::lock_guard lock(mutex_);
  const auto& joined = link->bulk_sockets;
  return std::find(joined.begin(), joined.end(), connection) != joined.end();
}

/// Ends a connection that has lost a message, from any thread.
void SocketWire::give_up(Connection& connection) {
  connection.overflowed = true;
  std::lock_guard lock(mutex_);
  (void)::shutdown(connection.socket.get(), SHUT_RDWR);
}

void SocketWire::keep_bulk(ConnectionId id) {
  const auto connection = find(id);
  if (!connection) return;
  for (const auto& one : all_sockets(connection)) {
    if (!one->writer.keep_bulk()) give_up(*one);
  }
}

bool SocketWire::in_order(ConnectionId id) const {
  const auto connection = find(id);
  if (!connection || connection->local) return true;
  const auto all = all_sockets(connection);
  return std::all_of(all.begin(), all.end(),
                     [&](const auto& one) { return one == connection || one->writer.delivered(); });
}

WirePeer SocketWire::peer(ConnectionId id) const {
  const auto connection = find(id);
  if (!connection) return {};
  return {connection->local, connection->peer.pid, connection->peer.pidfd.get(),
          connection->address};
}

/// Watches a connection's socket for events; the first call adds it to epoll, which may fail.
bool SocketWire::watch(Connection& connection, std::uint32_t events) {
  if (connection.events == events) return true;
  epoll_event event{};
  event.events = events;
  event.data.u64 = connection.id;
  const int operation = connection.events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  if (epoll_ctl(epoll_.get(), operation, connection.socket.get(), &event) != 0) return false;
  connection.events = events;
  return true;
}

void SocketWire::flush(Connection& connection) {
  (void)connection.writer.flush();
  if (connection.phase != Phase::open && connection.phase != Phase::closing) return;
  std::lock_guard lock(mutex_);
  // The writer is checked under the lock: otherwise a message that another thread has queued
  // meanwhile, finding the socket watched, might wait forever.
  watch(connection, connection.writer.idle() ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

void SocketWire::accept_all(const FileDescriptor& listener, bool local) {
  for (int k = 0; k < 64; ++k) {
    const int made = accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (made >= 0) {
      accept_one(FileDescriptor(made), local);
      continue;
    }
    if (errno == EMFILE || errno == ENFILE) refuse_one(listener);
    if (errno == EINTR || errno == ECONNABORTED) continue;
    return;
  }
}

/// Refuses a client for which no descriptor is left: accepts it with the spare descriptor and
/// closes that, so that the client is informed, and the listener does not report it forever.
void SocketWire::refuse_one(const FileDescriptor& listener) {
  spare_.reset();
  FileDescriptor refused(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  refused.reset();
  spare_ = spare_descriptor();
}

void SocketWire::accept_one(FileDescriptor socket, bool local) {
  auto connection = std::make_shared<Connection>(local);
  if (local) {
    auto peer = peer_of(socket.get());
    if (!peer || !allowed(peer->user)) return;
    connection->peer = std::move(*peer);
    connection->writer.attach(socket.get(), 0);
    connection->announced = true;
  } else {
    if (pending() >= 64) drop_oldest_pending();
    prepare_network_socket(socket, static_cast<int>(options_.silence.count()));
    connection->address = remote_address(socket);
  }
  connection->socket = std::move(socket);
  const ConnectionId id = add(connection);
  if (!local) start_handshake(*connection);
  bool watched = false;
  {
    std::lock_guard lock(mutex_);
    watched = watch(*connection, EPOLLIN);
  }
  if (!watched) return remove(id);
  if (local) options_.handlers.arrived(id);
}

bool SocketWire::progress() {
  std::array<epoll_event, 64> events{};
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int k = 0; k < count; ++k) {
    const epoll_event& event = events[static_cast<std::size_t>(k)];
    const auto connection = find(event.data.u64);
    try {
      if (event.data.u64 == local_tag) {
        accept_all(local_listener_, true);
      } else if (event.data.u64 == network_tag) {
        accept_all(network_listener_, false);
      } else if (connection) {
        handle(*connection, event.events);
      }
    } catch (const std::bad_alloc&) {
      // A connection whose message does not fit into memory ends; the others continue.
      if (connection) lose(connection, {ErrorCode::out_of_memory, "no memory for its messages"});
    }
  }
  const auto now = Clock::now();
  if (now < next_tick_) return count > 0;
  allow_for_standstill(now);
  const bool ticked = tick();
  next_tick_ = now + tick_interval;
  return count > 0 || ticked;
}

/// Extends time limits by the time for which this process was stopped: the other side could not be
/// heard meanwhile.
void SocketWire::allow_for_standstill(Clock::time_point now) {
  const auto late = now - next_tick_;
  if (next_tick_ == Clock::time_point{} || late < standstill_least) return;
  std::lock_guard lock(mutex_);
  for (const auto& [id, connection] : connections_) {
    if (connection->deadline != Clock::time_point::max()) connection->deadline += late;
  }
}

void SocketWire::handle(Connection& connection, std::uint32_t events) {
  const auto held = find(connection.id);
  if (connection.phase == Phase::open || connection.phase == Phase::closing) {
    if ((events & EPOLLOUT) != 0) flush(connection);
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read(held);
  } else if (connection.phase != Phase::detached) {
    go_on(held);
    // Bytes after the last step may have been read with it: the socket has no event for them.
    if (held->phase == Phase::open) read(held);
  }
}

void SocketWire::read(const ConnectionPointer& connection) {
  if (connection->phase == Phase::closing) {
    // Messages are no longer read, but the other side's end of the connection is noticed.
    std::array<std::byte, 4096> dropped{};
    const ssize_t length = recv(connection->socket.get(), dropped.data(), dropped.size(), 0);
    if (length == 0 || (length < 0 && errno != EAGAIN)) remove(connection->id);
    return;
  }
  FrameReader::Handlers handlers;
  handlers.place = [&](const MessageHeader& header, std::span<const std::byte> body,
                       std::int64_t offset, std::int64_t left) {
    return options_.handlers.place(connection->link(), header, body, offset, left);
  };
  handlers.frame = [&](const FrameHeader& frame, std::span<const std::byte> body,
                       std::span<FileDescriptor> descriptors) {
    return on_frame(*connection, frame, body, descriptors);
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

bool SocketWire::on_frame(Connection& connection, const FrameHeader& frame,
                          std::span<const std::byte> body, std::span<FileDescriptor> descriptors) {
  if (!connection.local) {
    // The client has opened this bulk socket, and would make it again: messages may go over it.
    if (connection.bulk_of != 0 && !connection.client) {
      const auto held = find(connection.id);
      if (!held) return false;
      if (!add_bulk_socket(held)) {
        lose(held, {ErrorCode::peer_lost, "its session has ended"});
        return false;
      }
    }
    connection.short_lives = 0;
    connection.writer.acknowledged(frame.acknowledged);
    if (frame.type == MessageType::acknowledge) return true;
    if (frame.sequence != connection.received + 1) {
      lose(find(connection.id), {ErrorCode::peer_lost, "its messages are out of order"});
      return false;
    }
    connection.received = frame.sequence;
    connection.writer.set_received(frame.sequence);
    note_way(connection, frame);
  }
  options_.handlers.message(connection.link(), {frame.type, frame.slot, frame.call}, body,
                            descriptors);
  return connection.phase == Phase::open;
}

/// Handles a broken connection: on one machine it is lost, as its process has exited; over a
/// network it may be made again.
void SocketWire::broken(const ConnectionPointer& connection, const std::string& why) {
  if (connection->overflowed) return lose(connection, read_nothing());
  if (connection->local || !connection->announced) {
    return lose(connection, {ErrorCode::peer_lost, why});
  }
  connection->writer.detach();
  connection->reader.reset();
  connection->tls.reset();
  connection->trouble = why;
  {
    std::lock_guard lock(mutex_);
    connection->socket.reset();
    connection->events = 0;
  }
  const auto now = Clock::now();
  if (connection->phase == Phase::open) {
    connection->deadline = now + options_.reconnect;
    const bool at_once = now - connection->opened_at < long_life;
    connection->short_lives = at_once ? connection->short_lives + 1 : 0;
    if (connection->short_lives > short_lives_max) {
      return lose(connection, {ErrorCode::peer_lost,
                               "its connection breaks each time that it is made anew: " + why});
    }
  }
  connection->phase = Phase::detached;
  connection->next_try = now;
}

/// Ends a connection. If a bulk socket has carried messages, some may be lost with it: then its
/// link ends, too.
void SocketWire::lose(const ConnectionPointer& connection, const Error& error) {
  const bool tell = connection->announced && connection->bulk_of == 0;
  for (const auto& one : all_sockets(connection)) {
    one->writer.detach();
    one->phase = Phase::closing;
    remove(one->id);
  }
  if (tell) options_.handlers.lost(connection->id, error);
  const auto link = connection->bulk_of != 0 ? find(connection->bulk_of) : nullptr;
  if (!link) return;
  if (has_joined(connection, link)) return lose(link, error);
  if (connection->client) connect_next_bulk_socket(link);  // the link continues without this socket
}

void SocketWire::close(ConnectionId id) {
  const auto connection = find(id);
  if (!connection) return;
  for (const auto& one : all_sockets(connection)) close_socket(one);
}

void SocketWire::close_socket(const ConnectionPointer& connection) {
  if (connection->phase == Phase::closing) return;  // the sent messages are leaving
  const ConnectionId id = connection->id;
  if (connection->phase != Phase::open || !connection->writer.flush()) {
    connection->writer.detach();
    connection->phase = Phase::closing;
    remove(id);
    return;
  }
  // The memory of bulk may be freed before the other side has read the bytes.
  connection->writer.forget_written();
  (void)connection->writer.keep_bulk();
  connection->phase = Phase::closing;
  connection->deadline = Clock::now() + linger_max;
}

/// Handles elapsed time limits, and due attempts to reconnect.
bool SocketWire::tick() {
  std::vector<ConnectionPointer> all;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, connection] : connections_) {
      if (connection->phase != Phase::open) all.push_back(connection);
    }
  }
  const auto now = Clock::now();
  for (const auto& connection : all) {
    if (connection->phase == Phase::closing) {
      if (connection->writer.idle() || now >= connection->deadline) remove(connection->id);
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
  local_listener_.reset();
  network_listener_.reset();
  std::vector<ConnectionId> ids;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, connection] : connections_) ids.push_back(id);
  }
  for (const ConnectionId id : ids) close(id);
  const auto end = Clock::now() + linger_max;
  const auto left = [&] {
    std::lock_guard lock(mutex_);
    return !connections_.empty();
  };
  while (left() && Clock::now() < end) {
    if (!progress()) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

std::size_t SocketWire::pending() const {
  std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(connections_.begin(), connections_.end(),
                    [](const auto& one) { return !one.second->announced; }));
}

void SocketWire::drop_oldest_pending() {
  ConnectionPointer oldest;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, connection] : connections_) {
      if (connection->announced) continue;
      oldest = connection;  // ids increase
      break;
    }
  }
  if (oldest) lose(oldest, {ErrorCode::peer_lost, "others came"});
}

}  // namespace tranship::fabric
