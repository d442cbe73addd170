// Connections between simulated processes: messages that take time, sides that fall silent, and
// connections that break and are resumed, or are lost.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "fabric/wires/wire.hpp"

namespace tranship::test {

using namespace fabric;

constexpr std::int64_t never_ns = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t microsecond_ns = 1000;
constexpr std::int64_t millisecond_ns = 1000 * 1000;
constexpr std::int64_t second_ns = 1000 * millisecond_ns;

/// The network that joins the processes of a world. Side 0 of a connection is the side that
/// connected. Used by one thread.
class SimNetwork {
 public:
  /// A process as other processes reach it.
  struct Node {
    std::string name;
    int machine = 0;
    bool listens = true;
    bool dead = false;
    FileDescriptor ended;  ///< Stands for the process's pidfd: readable once it has ended.
  };

  struct Message {
    MessageHeader header;
    std::vector<std::byte> body;
    GatheredBytes bulk;  ///< Bytes in the sender's memory, or in `kept`.
    std::shared_ptr<const void> owner;
    std::vector<std::byte> kept;
    std::vector<FileDescriptor> descriptors;
    std::int64_t due_ns = 0;
  };
  struct End {
    int node = 0;
    bool announced = false;
    bool closed = false;  ///< This side has closed the connection.
    bool lost = false;    ///< This side was notified of the loss.
    /// The other side is gone: this side reads what has arrived, then the end.
    bool dropped = false;
    std::int64_t deadline_ns = never_ns;  ///< Time limit for resuming while broken.
    std::int64_t silent_until_ns = 0;     ///< No message arrives at this side before.
    /// The death of the process at the other end was reported.
    bool reported = false;
    std::deque<Message> incoming;
    std::size_t placed = 0;  ///< Bytes of the first message's bulk that have arrived.
  };
  struct Connection {
    ConnectionId id = 0;
    bool local = false;
    bool broken = false;
    bool disturbed = false;  ///< The connection was reset at least once.
    bool tries = false;      ///< The client is trying to resume.
    bool answering = false;  ///< The server has resumed, and the client has not read so yet.
    std::array<End, 2> ends;
    bool open(int side) const { return !ends[at(side)].closed && !ends[at(side)].lost; }
    static std::size_t at(int side) { return static_cast<std::size_t>(side); }
  };

  SimNetwork(Random& random, const ManualClock& clock) : random_(random), clock_(clock) {}

  int add(std::string name, int machine);
  Node& node(int index) { return *nodes_[static_cast<std::size_t>(index)]; }
  /// Returns the last process of that name.
  int find(const std::string& name) const;

  Connection& make(int from, int to);
  Connection* connection(ConnectionId id);
  /// Returns the side of a connection that a process has.
  static int side_of(const Connection& connection, int node) {
    return connection.ends[0].node == node ? 0 : 1;
  }
  std::vector<ConnectionId> of(int node) const;
  std::size_t connections() const { return connections_.size(); }

  /// Ends a process: a part of what it has sent still arrives, as far as it had left the sender.
  void kill(int node);
  /// Resets a connection: over a network it breaks, within a machine it ends for both sides.
  void reset(Connection& connection);
  void stop_sending(Connection& connection, int side, bool whole);
  /// Copies the bulk that a side has sent, so that its memory is not read any more.
  static void keep_bulk(Connection& connection, int side);
  /// Lets nothing cross between two machines until `until_ns`.
  void part(int machine, int other, std::int64_t until_ns);
  bool parted(const Connection& connection) const;

  /// Called with each piece that is written into a process's memory: its source, its target and its
  /// size.
  std::function<void(const std::byte* source, std::byte* target, std::size_t bytes)> on_written;

  Random& random() { return random_; }
  std::int64_t now_ns() const { return clock_.now_ns(); }
  std::int64_t resumed = 0;  ///< Connections that were resumed after they broke.
  static constexpr std::int64_t reconnect_ns = second_ns;

 private:
  Random& random_;
  const ManualClock& clock_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::map<std::pair<int, int>, std::int64_t> parted_;
};

/// The wire of one process.
class SimWire final : public Wire {
 public:
  SimWire(SimNetwork& network, int node, Handlers handlers)
      : network_(network), node_(node), handlers_(std::move(handlers)) {}

  Contact contact() const override;
  void accept_key(const Key&) override {}
  int event_descriptor() const override { return -1; }
  bool arm() override { return true; }
  bool progress() override;
  Result<ConnectionId> connect(const Contact& contact) override;
  void send(ConnectionId id, const WireMessage& message) override;
  void keep_bulk(ConnectionId id) override;
  WirePeer peer(ConnectionId id) const override;
  void close(ConnectionId id) override;
  void drain() override;

  ConnectionId last_made() const { return last_made_; }

 private:
  using Connection = SimNetwork::Connection;
  using End = SimNetwork::End;

  bool advance(Connection& connection);
  bool deliver(Connection& connection);
  bool deliver_front(Connection& connection);
  bool place_some(Connection& connection);
  void write(const GatheredBytes& bulk, std::size_t offset, std::span<std::byte> target);
  void go_on(Connection& connection);
  void lose(Connection& connection, const Error& why);

  SimNetwork& network_;
  int node_;
  Handlers handlers_;
  ConnectionId last_made_ = 0;
};

}  // namespace tranship::test
