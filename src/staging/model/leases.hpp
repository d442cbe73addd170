// Who may touch which memory of a staging server: rooms that are being written, objects that are
// being read, and the fences around what a lost client may still touch.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace tranship::staging {

/// A connection of a process that puts and gets. A process that connects anew is another owner.
using Owner = std::uint64_t;

/// A client's name for a question that takes something, by which it can give that up without having
/// heard the answer. 0: none.
using Ticket = std::uint64_t;

/// Objects that an owner reads, which stay as they are until its end.
struct Lease {
  Owner owner = 0;
  Ticket ticket = 0;
  std::vector<std::uint64_t> objects;
  std::vector<std::uint64_t> pinned;  ///< of the objects: these stay in memory
  std::uint64_t wanted = 0;           ///< the object that is to come back from disk; 0: none
  std::int64_t begin_ns = 0;          ///< when it was granted, by the store's clock
};

/// What each owner may touch: rooms and leases, by owner.
/// Laws: a room or lease is listed from its grant until the owner gives it up; one whose owner was
/// lost is listed, as fenced, until end() of that owner. Nobody else may get the memory meanwhile.
/// Costs are constant in the number of objects, and linear in what the one owner holds. Adding a
/// room allocates nothing once its owner had as many before. Not thread-safe.
class Leases {
 public:
  struct Room {
    std::uint64_t object = 0;
    Ticket ticket = 0;
  };
  /// What one owner holds.
  struct Holdings {
    std::vector<Room> rooms;             ///< of objects that it writes
    std::vector<std::uint64_t> leases;   ///< the numbers of its leases, the oldest first
    std::vector<std::uint64_t> entries;  ///< index entries of objects that it writes elsewhere
    std::vector<std::uint64_t> fenced;   ///< rooms that it may still write, and cannot commit
    bool lost = false;                   ///< its connection is gone
  };

  void add_room(Owner owner, std::uint64_t object, Ticket ticket);
  void remove_room(Owner owner, std::uint64_t object);

  /// Returns the lease's number.
  std::uint64_t add(Lease lease);
  /// Null unless the owner holds that lease and is connected.
  Lease* find(Owner owner, std::uint64_t number);
  /// Of a number that is listed.
  Lease& at(std::uint64_t number) { return leases_.at(number); }
  const Lease& at(std::uint64_t number) const { return leases_.at(number); }
  Lease remove(std::uint64_t number);

  void add_entry(Owner owner, std::uint64_t entry) { of_[owner].entries.push_back(entry); }
  void remove_entry(Owner owner, std::uint64_t entry);

  /// Null if the owner never held anything.
  const Holdings* holdings(Owner owner) const;
  /// The owner's connection is gone: its rooms become fenced ones. Returns them, for their objects
  /// to be given up; its leases stay.
  std::vector<Room> fence(Owner owner);
  /// Its entries that are not confirmed; they are listed no more.
  std::vector<std::uint64_t> take_entries(Owner owner);
  /// The owner provably touches nothing any more: returns what was fenced of it, and forgets it.
  /// Its leases must have been removed before.
  std::vector<std::uint64_t> end(Owner owner);

  /// Whether somebody who is connected writes or reads.
  bool busy() const { return open_rooms_ > 0 || open_leases_ > 0; }
  /// Whether the lease's owner was lost.
  bool is_fenced(const Lease& lease) const;
  /// Rooms of all owners that are connected, for a rare search through all that is being written.
  template <typename Visit>
  void each_room(const Visit& visit) const {
    for (const auto& [owner, holdings] : of_) {
      for (const Room& room : holdings.rooms) visit(room);
    }
  }

 private:
  std::unordered_map<Owner, Holdings> of_;
  std::unordered_map<std::uint64_t, Lease> leases_;
  std::uint64_t last_ = 0;
  std::int64_t open_rooms_ = 0;
  std::int64_t open_leases_ = 0;
};

}  // namespace tranship::staging
