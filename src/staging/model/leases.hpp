// Which client may access which memory of a staging server: rooms that are being written, objects
// that are being read, and fences around memory that a lost client may still access.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace tranship::staging {

/// One connection of a client. A process that connects again has another one; its ClientId stays.
using ClientConnection = std::uint64_t;

/// A client's number for a request that is granted something, so that the client can give the grant
/// back without having received the reply. 0: none.
using RequestId = std::uint64_t;

/// Objects that a client reads, and that stay as they are until the lease ends.
struct ObjectLease {
  ClientConnection client = 0;
  RequestId request_id = 0;
  std::vector<std::uint64_t> objects;
  std::vector<std::uint64_t> pinned;  ///< Those of the objects that stay in memory.
  std::uint64_t wanted = 0;           ///< The object that is to come back from disk; 0: none.
  std::int64_t begin_ns = 0;          ///< Time of the grant, by the store's clock.
};

/// The rooms and leases of each client.
/// Laws: a room or lease is listed from its grant until its client gives it up. What a lost client
/// held is listed as fenced until end() of that client, and its memory is given to no other client
/// meanwhile. Costs are constant in the number of objects, and linear in what the one client holds.
/// Adding a room allocates nothing once its client had as many before. Not thread-safe.
class Leases {
 public:
  struct RoomGrant {
    std::uint64_t object = 0;
    RequestId request_id = 0;
  };
  /// What one client holds.
  struct Holdings {
    std::vector<RoomGrant> rooms;        ///< Rooms of objects that it writes.
    std::vector<std::uint64_t> leases;   ///< Numbers of its leases, the oldest first.
    std::vector<std::uint64_t> entries;  ///< Index entries of objects that it writes elsewhere.
    std::vector<std::uint64_t> fenced;   ///< Objects that it may still write and cannot commit.
    bool lost = false;                   ///< Whether its connection is lost.
  };

  void add_room(ClientConnection client, std::uint64_t object, RequestId request_id);
  void remove_room(ClientConnection client, std::uint64_t object);

  /// Adds a lease and returns its number.
  std::uint64_t add(ObjectLease lease);
  /// Returns null unless the client holds that lease and is connected.
  ObjectLease* find(ClientConnection client, std::uint64_t number);
  const ObjectLease* find(ClientConnection client, std::uint64_t number) const;
  /// Returns the lease with that number, which must be listed.
  ObjectLease& at(std::uint64_t number) { return leases_.at(number); }
  const ObjectLease& at(std::uint64_t number) const { return leases_.at(number); }
  ObjectLease remove(std::uint64_t number);

  void add_entry(ClientConnection client, std::uint64_t entry) {
    of_[client].entries.push_back(entry);
  }
  void remove_entry(ClientConnection client, std::uint64_t entry);

  /// Returns null if the client never held anything.
  const Holdings* holdings(ClientConnection client) const;
  /// Fences the rooms of a client whose connection is lost, and returns them, so that the caller
  /// gives up their objects. The client's leases stay.
  std::vector<RoomGrant> fence(ClientConnection client);
  /// Removes and returns the client's index entries that are not confirmed.
  std::vector<std::uint64_t> take_entries(ClientConnection client);
  /// Forgets a client that provably accesses nothing any more, and returns what was fenced of it.
  /// Its leases must have been removed before.
  std::vector<std::uint64_t> end(ClientConnection client);

  /// Returns whether a connected client writes or reads.
  bool busy() const { return open_rooms_ > 0 || open_leases_ > 0; }
  /// Returns whether the lease's client is lost.
  bool is_fenced(const ObjectLease& lease) const;
  /// Visits all leases.
  template <typename Visit>
  void each_lease(const Visit& visit) const {
    for (const auto& [number, lease] : leases_) visit(lease);
  }
  /// Visits the rooms of all connected clients: a search through all that is being written.
  template <typename Visit>
  void each_room(const Visit& visit) const {
    for (const auto& [client, holdings] : of_) {
      for (const RoomGrant& room : holdings.rooms) visit(room);
    }
  }

 private:
  std::unordered_map<ClientConnection, Holdings> of_;
  std::unordered_map<std::uint64_t, ObjectLease> leases_;
  std::uint64_t last_ = 0;
  std::int64_t open_rooms_ = 0;
  std::int64_t open_leases_ = 0;
};

}  // namespace tranship::staging
