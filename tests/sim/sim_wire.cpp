#include "sim/sim_wire.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstring>

namespace tranship::test {
namespace {

const Error ended{ErrorCode::peer_lost, "the other side ended the connection"};
const Error broke{ErrorCode::peer_lost, "the connection broke, and no new one came"};

}  // namespace

int SimNetwork::add(std::string name, int machine) {
  auto node = std::make_unique<Node>();
  node->name = std::move(name);
  node->machine = machine;
  node->ended = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  nodes_.push_back(std::move(node));
  return static_cast<int>(nodes_.size()) - 1;
}

int SimNetwork::find(const std::string& name) const {
  for (std::size_t k = nodes_.size(); k > 0; --k) {
    if (nodes_[k - 1]->name == name) return static_cast<int>(k) - 1;
  }
  return -1;
}

SimNetwork::Connection& SimNetwork::make(int from, int to) {
  auto made = std::make_unique<Connection>();
  made->id = connections_.size() + 1;
  made->local = node(from).machine == node(to).machine;
  made->ends[0].node = from;
  made->ends[0].announced = true;
  made->ends[1].node = to;
  connections_.push_back(std::move(made));
  return *connections_.back();
}

SimNetwork::Connection* SimNetwork::connection(ConnectionId id) {
  return id >= 1 && id <= connections_.size() ? connections_[id - 1].get() : nullptr;
}

std::vector<ConnectionId> SimNetwork::of(int node) const {
  std::vector<ConnectionId> ids;
  for (const auto& one : connections_) {
    if (one->ends[0].node == node || one->ends[1].node == node) ids.push_back(one->id);
  }
  return ids;
}

/// Ends what one side has sent and the other has not received: all of it arrives (`whole`), or only
/// a part that had already left. From now on the sender's memory is not read.
void SimNetwork::stop_sending(Connection& connection, int side, bool whole) {
  auto& messages = connection.ends[Connection::at(1 - side)].incoming;
  auto kept = static_cast<std::int64_t>(messages.size());
  if (!whole && kept > 0) kept = random_.between(0, kept);
  messages.resize(static_cast<std::size_t>(kept));
  keep_bulk(connection, side);
  connection.ends[Connection::at(1 - side)].dropped = true;
}

void SimNetwork::keep_bulk(Connection& connection, int side) {
  for (Message& message : connection.ends[Connection::at(1 - side)].incoming) {
    if (message.bulk.empty() || !message.kept.empty()) continue;
    for (const auto& part : message.bulk.parts()) {
      message.kept.insert(message.kept.end(), part.begin(), part.end());
    }
    message.bulk = message.kept;
    message.owner.reset();
  }
}

void SimNetwork::kill(int index) {
  Node& one = node(index);
  one.dead = true;
  one.listens = false;
  const std::uint64_t count = 1;
  (void)!write(one.ended.get(), &count, sizeof count);
  for (const auto& connection : connections_) {
    if (connection->ends[0].node != index && connection->ends[1].node != index) continue;
    const int side = side_of(*connection, index);
    if (!connection->open(side)) continue;
    connection->ends[Connection::at(side)].closed = true;
    stop_sending(*connection, side, false);
    // A child may hold the sockets open: then only the death of the process is noticed.
    const bool held = connection->local && random_.chance(0.3);
    if (held) connection->ends[Connection::at(1 - side)].dropped = false;
  }
}

void SimNetwork::reset(Connection& connection) {
  if (!connection.open(0) || !connection.open(1)) return;
  connection.disturbed = true;
  if (connection.local) {
    stop_sending(connection, 0, false);
    stop_sending(connection, 1, false);
    return;
  }
  connection.broken = true;
  connection.tries = false;
  connection.answering = false;
  for (End& end : connection.ends) {
    end.deadline_ns = now_ns() + reconnect_ns;
    end.placed = 0;
  }
}

void SimNetwork::part(int machine, int other, std::int64_t until_ns) {
  parted_[std::minmax(machine, other)] = until_ns;
}

bool SimNetwork::parted(const Connection& connection) const {
  if (connection.local) return false;
  const auto machine = [&](int side) {
    const End& end = connection.ends[Connection::at(side)];
    return nodes_[static_cast<std::size_t>(end.node)]->machine;
  };
  const auto found = parted_.find(std::minmax(machine(0), machine(1)));
  return found != parted_.end() && now_ns() < found->second;
}

Contact SimWire::contact() const {
  Contact contact;
  contact.local = network_.node(node_).name;
  contact.network = contact.local;
  return contact;
}

Result<ConnectionId> SimWire::connect(const Contact& contact) {
  const int there = network_.find(contact.local);
  if (there < 0 || !network_.node(there).listens) {
    return Error{ErrorCode::peer_lost, "nobody listens there"};
  }
  last_made_ = network_.make(node_, there).id;
  return last_made_;
}

void SimWire::send(ConnectionId id, const WireMessage& message) {
  Connection* connection = network_.connection(id);
  const int side = SimNetwork::side_of(*connection, node_);
  End& other = connection->ends[Connection::at(1 - side)];
  if (!connection->open(side) || other.closed || other.lost || other.dropped) return;
  SimNetwork::Message sent;
  sent.header = message.header;
  sent.body.assign(message.body.begin(), message.body.end());
  sent.bulk = message.bulk;
  sent.owner = message.owner;
  for (const int descriptor : message.descriptors) {
    sent.descriptors.emplace_back(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  }
  Random& random = network_.random();
  const std::int64_t most = connection->local ? 50 * microsecond_ns : 2 * millisecond_ns;
  sent.due_ns = network_.now_ns() + random.below(most);
  other.incoming.push_back(std::move(sent));
}

void SimWire::keep_bulk(ConnectionId id) {
  Connection* connection = network_.connection(id);
  SimNetwork::keep_bulk(*connection, SimNetwork::side_of(*connection, node_));
}

WirePeer SimWire::peer(ConnectionId id) const {
  const Connection* connection = network_.connection(id);
  const int side = SimNetwork::side_of(*connection, node_);
  if (!connection->open(side)) return {};
  const int other = connection->ends[Connection::at(1 - side)].node;
  return {connection->local, 0, connection->local ? network_.node(other).ended.get() : -1,
          "sim:" + network_.node(other).name};
}

void SimWire::close(ConnectionId id) {
  Connection* connection = network_.connection(id);
  const int side = SimNetwork::side_of(*connection, node_);
  if (!connection->open(side)) return;
  connection->ends[Connection::at(side)].closed = true;
  connection->ends[Connection::at(side)].incoming.clear();
  network_.stop_sending(*connection, side, !connection->broken);
}

void SimWire::drain() {
  for (const ConnectionId id : network_.of(node_)) close(id);
  network_.node(node_).listens = false;
}

void SimWire::lose(Connection& connection, const Error& why) {
  const int side = SimNetwork::side_of(connection, node_);
  End& end = connection.ends[Connection::at(side)];
  end.lost = true;
  end.incoming.clear();
  network_.stop_sending(connection, side, false);
  handlers_.lost(connection.id, why);
}

bool SimWire::progress() {
  bool any = false;
  for (const ConnectionId id : network_.of(node_)) {
    Connection& connection = *network_.connection(id);
    if (connection.open(SimNetwork::side_of(connection, node_))) any |= advance(connection);
  }
  return any;
}

bool SimWire::advance(Connection& connection) {
  const int side = SimNetwork::side_of(connection, node_);
  End& end = connection.ends[Connection::at(side)];
  if (!end.announced) {
    if (network_.random().chance(0.3)) return false;
    end.announced = true;
    handlers_.arrived(connection.id);
    if (!connection.open(side)) return true;
  }
  if (connection.broken || (connection.answering && side == 0)) {
    go_on(connection);
    return false;
  }
  const bool any = deliver(connection);
  if (!connection.open(side) || !end.dropped || !end.incoming.empty()) return any;
  if (network_.now_ns() < end.silent_until_ns || network_.parted(connection)) return any;
  if (connection.local) {
    lose(connection, ended);
  } else {
    connection.broken = true;  // the other side may resume the connection
    end.deadline_ns = network_.now_ns() + SimNetwork::reconnect_ns;
  }
  return true;
}

/// Resumes a broken connection over a network: the client tries, the server accepts, the client
/// reads so.
void SimWire::go_on(Connection& connection) {
  const int side = SimNetwork::side_of(connection, node_);
  End& end = connection.ends[Connection::at(side)];
  const bool gone = !connection.open(1 - side);
  const bool reachable = !network_.parted(connection);
  if (network_.now_ns() >= end.deadline_ns || (side == 0 && gone && reachable)) {
    if (connection.answering) connection.broken = true;
    connection.answering = false;
    return lose(connection, broke);
  }
  if (gone || !reachable || network_.random().chance(0.5)) return;
  if (side == 0 && connection.answering) {
    connection.answering = false;
    end.deadline_ns = never_ns;
    ++network_.resumed;
  } else if (side == 0) {
    connection.tries = true;
  } else if (connection.tries) {
    connection.broken = false;
    connection.tries = false;
    connection.answering = true;
    end.deadline_ns = never_ns;
  }
}

bool SimWire::deliver(Connection& connection) {
  const int side = SimNetwork::side_of(connection, node_);
  End& end = connection.ends[Connection::at(side)];
  bool any = false;
  // Within a machine, what a process has sent before its death can be read at once.
  const int other = connection.ends[Connection::at(1 - side)].node;
  const bool here = connection.local && network_.node(other).dead;
  while (connection.open(side) && !end.incoming.empty()) {
    const bool held =
        network_.now_ns() < std::max(end.incoming.front().due_ns, end.silent_until_ns);
    const bool waits = held || network_.parted(connection) || network_.random().chance(0.2);
    if (waits && !here) return any;
    any = true;
    if (!deliver_front(connection)) return any;
  }
  return any;
}

/// Writes some of the first message's bulk. Returns false if the connection was lost.
bool SimWire::place_some(Connection& connection) {
  End& end = connection.ends[SimNetwork::Connection::at(SimNetwork::side_of(connection, node_))];
  const SimNetwork::Message& front = end.incoming.front();
  const std::size_t left = front.bulk.size() - end.placed;
  const ReceiveBuffer room =
      handlers_.place(connection.id, front.header, front.body,
                      static_cast<std::int64_t>(end.placed), static_cast<std::int64_t>(left));
  if (room.bytes.empty()) {
    lose(connection, {ErrorCode::invalid_argument, "it breaks the protocol"});
    return false;
  }
  std::vector<std::span<std::byte>> parts{room.bytes};
  parts.insert(parts.end(), room.more.begin(), room.more.end());
  std::size_t fits = 0;
  for (const auto& part : parts) fits += part.size();
  fits = std::min(fits, left);
  const std::size_t words = (fits / 2 + 7) / 8 * 8;
  std::size_t bytes = network_.random().chance(0.5) ? fits : std::min(fits, words);
  for (const auto& part : parts) {
    const auto target = part.first(std::min(part.size(), bytes));
    write(front.bulk, end.placed, target);
    end.placed += target.size();
    bytes -= target.size();
  }
  return true;
}

/// Writes the bytes of a message from `offset` on to all of `target`.
void SimWire::write(const GatheredBytes& bulk, std::size_t offset, std::span<std::byte> target) {
  for (const auto& part : bulk.parts()) {
    const std::size_t skipped = std::min(offset, part.size());
    offset -= skipped;
    const auto source = part.subspan(skipped, std::min(part.size() - skipped, target.size()));
    if (source.empty()) continue;
    if (network_.on_written) network_.on_written(source.data(), target.data(), source.size());
    std::memcpy(target.data(), source.data(), source.size());
    target = target.subspan(source.size());
  }
}

/// Delivers the first message. Returns false if more of it is to come.
bool SimWire::deliver_front(Connection& connection) {
  const int side = SimNetwork::side_of(connection, node_);
  End& end = connection.ends[Connection::at(side)];
  while (end.placed < end.incoming.front().bulk.size()) {
    if (!place_some(connection)) return false;
    const bool whole = end.placed == end.incoming.front().bulk.size();
    if (!whole && network_.random().chance(0.5)) return false;
  }
  end.placed = 0;
  SimNetwork::Message message = std::move(end.incoming.front());
  end.incoming.pop_front();
  message.owner.reset();  // as after the other side's acknowledgement
  handlers_.message(connection.id, message.header, message.body, message.descriptors);
  return true;
}

}  // namespace tranship::test
