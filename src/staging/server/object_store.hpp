// The objects of a staging server: variables, versions, boxes. Decides what a put may write, what a
// get sees, what waits and what goes; moves nothing and knows no clock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.hpp"
#include "staging/model/box.hpp"
#include "staging/model/box_index.hpp"
#include "staging/model/by_name.hpp"
#include "staging/model/deletions.hpp"
#include "staging/model/leases.hpp"
#include "staging/model/limits.hpp"
#include "staging/model/parts.hpp"
#include "staging/model/requests.hpp"
#include "staging/model/residency.hpp"
#include "staging/model/retention.hpp"
#include "staging/model/traffic.hpp"

namespace tranship::staging {

/// What becomes of a put when the memory is full.
enum class Full {
  block,           ///< it waits until versions are discarded by somebody
  discard_oldest,  ///< the oldest versions that nobody reads make room
  spill            ///< the oldest objects that nobody reads go to disk
};

/// The objects of one server, and the boxes of those objects of other servers that share points
/// with its cells.
/// Laws: an object is visible whole, from commit() on, or not at all. What a get returned stays as
/// it is until its lease ends. Of overlapping objects of one version the one that was committed
/// last is seen. A version goes by discard(), by the limits of the options, and in no other way;
/// asking for it afterwards is an error that says so. A put that never ends changes no version:
/// limits count what was committed. What went to disk is there as before, but for the time that it
/// takes to bring it back. Memory that an owner was given is given to nobody else before the owner
/// gave it up, or gone() said that it cannot touch it. Costs are logarithms of the number of
/// objects, and what the answer holds. Not thread-safe.
class ObjectStore {
 public:
  struct Options {
    std::int64_t memory_bytes = 0;
    std::int64_t segment_bytes = std::int64_t{64} << 20;
    int versions_max = 0;  ///< of a variable; 0: any number
    Full full = Full::block;
    std::int64_t spill_bytes = spill_bytes_unlimited;  ///< that may lie on disk, for Full::spill
    int server = 0;                                    ///< its number
    int servers = 1;                                   ///< of its group
    Limits limits{};
    std::function<std::int64_t()> now_ns{};  ///< the age of leases; empty: they have none
    /// As of Places::Options.
    std::function<Status(std::int64_t bytes)> make_segment;
    std::function<Status(int segment)> take_pages{};
    /// Hears of each version that goes, if somebody is given.
    std::function<void(const std::string& variable, std::int64_t version)> on_discard;
  };
  explicit ObjectStore(Options options);

  /// @error invalid_argument if it does not fit the variable; out_of_memory if no room could ever
  ///        be made; not_found if the version was discarded
  Result<std::variant<GrantedRoom, Waiting>> begin(ClientConnection client,
                                                   const PutRequest& request,
                                                   const RoomRequest& asking = {});
  /// The memory of an object that was begun without being ready gets its pages: its owner is about
  /// to write it.
  /// @error not_found if the owner has begun no such object; out_of_memory if the system has none
  Status take_pages(ClientConnection client, std::uint64_t object);
  /// The object is visible from now on. Its order, which is returned, is above that of every object
  /// that this server knows of, and above `order_before`.
  /// @error not_found if the owner has begun no such object, or its version was discarded
  ///        meanwhile; invalid_argument if its pages were never taken
  Result<std::uint64_t> commit(ClientConnection client, std::uint64_t object,
                               std::uint64_t order_before = 0, const Checksum& checksum = {});
  Status abort(ClientConnection client, std::uint64_t object);

  /// Indexes the box of an object that `owner` writes on another server: before its commit there.
  /// Returns an order that is above that of every object that this server knows of. The entry
  /// counts for no limit of versions before confirm().
  /// @error as begin(); invalid_argument if it was indexed before
  Result<std::uint64_t> index(ClientConnection client, const PutRequest& request,
                              const RemoteObject& where);
  /// Takes an entry back: the one who made it may before confirm(), anybody once its owner was
  /// lost, and nobody else.
  void unindex(ClientConnection client, const std::string& variable, std::int64_t version,
               const ObjectId& object);
  /// The object of an entry was committed with that order: its version counts for limits from now
  /// on. Said by the one who made the entry, or by anybody once that owner was lost.
  void confirm(ClientConnection client, const std::string& variable, std::int64_t version,
               const ObjectId& object, std::uint64_t order);

  /// What the primaries of objects that were indexed here are to be told, which drop_orphan() then;
  /// at most so many, each once.
  std::vector<Orphan> take_orphans(std::size_t count_max);
  /// An owner of the object's box knows it no longer. When all have said so, nobody can find it: it
  /// goes.
  void drop_orphan(std::uint64_t object, int index_server);

  /// Objects of this server that cover the box.
  /// @error not_found if the version was discarded; invalid_argument if the box has another rank
  Result<std::variant<FoundObjects, Waiting, NeedsOtherServers>> get(ClientConnection client,
                                                                     const GetRequest& request,
                                                                     RequestId request_id = 0);
  /// The objects that share points with the box, of this server and of others, at the version that
  /// `choice` says; of `latest`, the highest one that has something of the box.
  /// @error as get()
  Result<std::variant<FoundObjects, Waiting>> find(ClientConnection client,
                                                   const GetRequest& request,
                                                   RequestId request_id = 0);
  /// What became of objects of this server that find() named elsewhere. `lease` keeps those that
  /// are here.
  /// @error not_found if the version was discarded, here or where the objects' owners are
  Result<std::vector<LeasedObject>> lease(ClientConnection client, const std::string& variable,
                                          std::int64_t version,
                                          std::span<const std::uint64_t> objects,
                                          std::uint64_t& lease, RequestId request_id = 0);
  /// Brings an object of a lease back into memory, where it stays until the next recall() of this
  /// lease, or its end; the lease's other objects may go to disk meanwhile. Object 0: all may. It
  /// is kept from being discarded in any case.
  /// @error not_found if there is no such lease; io if the disk does not give it back
  Result<std::variant<Range, Waiting>> recall(ClientConnection client, std::uint64_t lease,
                                              std::uint64_t object);
  Status release(ClientConnection client, std::uint64_t lease);
  /// Gives up what the owner asked for with that request id, if it was granted: room, or leases,
  /// which it returns.
  std::vector<std::uint64_t> undo(ClientConnection client, RequestId request_id);

  /// Between memory and disk, to be carried out in this order. Ask after each call of the others.
  std::vector<Move> take_moves() { return residency_.take_moves(); }
  void ended(const Move& move, const Status& status);

  /// What is being written to the version cannot be committed any more.
  /// @error not_found if it is not there
  Status discard(const std::string& variable, std::int64_t version);

  /// Whether the variable was deleted since the client has asked the metadata server for it: it
  /// must ask anew before it goes on.
  bool stale(const std::string& variable, const Incarnation& incarnation) const {
    return deletions_.stale(variable, incarnation);
  }
  /// Takes the variable away with all of its versions, as discard() does, and all that was
  /// remembered of it: it may be put to as something else. `number`: of the deletion, as its
  /// metadata server counts them. Returns whether there was anything of it.
  bool remove(const std::string& variable, std::uint64_t number);

  /// The owner's connection is gone, and its process may still write and read what it was given:
  /// what it had begun can be committed no more, and counts as given up for whoever waits for it;
  /// its memory, and the memory that it reads, is fenced until gone(). Final: a client that
  /// connects anew is another owner.
  void lost(ClientConnection client);
  /// The owner's process provably touches nothing any more: it said so, or it is dead. Its memory
  /// is free. It need not have been lost() before.
  void gone(ClientConnection client);

  /// The variables of which objects have been committed here; producers are not known here.
  std::vector<VariableInfo> list() const;
  /// Their names from `first` on, in order, at most so many.
  std::vector<std::string> names_from(const std::string& first, std::size_t count_max) const;
  /// One with its versions above `after`, at most so many; all of them above without it.
  std::optional<VariableInfo> info(const std::string& variable,
                                   std::optional<std::int64_t> after = {},
                                   std::size_t versions_max = SIZE_MAX) const;
  /// The same of one, without versions.
  std::optional<VariableInfo> describe(const std::string& variable) const;
  std::int64_t memory_bytes_used() const { return residency_.memory_bytes_used(); }
  std::int64_t sparse_bytes() const { return residency_.sparse_bytes(); }
  std::int64_t spilled_bytes() const { return residency_.spilled_bytes(); }
  std::int64_t disk_bytes_used() const { return residency_.disk_bytes_used(); }
  /// Memory of lost owners that nobody else may get: of the objects that they wrote.
  std::int64_t fenced_bytes() const { return fenced_bytes_; }
  /// Whether owners that are connected write or read objects.
  bool busy() const { return leases_.busy(); }

  /// Variables of which something has changed since the last call. An empty name: memory was freed,
  /// or an object came back to it.
  std::set<std::string> take_changes();

 private:
  struct Object {
    std::string variable;
    std::int64_t version = 0;
    Box box;
    std::int64_t bytes = 0;          ///< in whole units
    std::uint64_t order = 0;         ///< of its commit; 0: not visible
    ClientConnection client = 0;     ///< who writes it, until its commit
    std::vector<int> index_servers;  ///< as Asking says
    int leases = 0;
    bool discarded = false;
    Checksum checksum{};
  };
  struct Version {
    BoxIndex index;      ///< objects of this server that are visible
    BoxIndex elsewhere;  ///< objects of other servers, by a number of this store's own
    std::map<ObjectId, std::uint64_t> entry_numbers;  ///< that number
    std::int64_t bytes = 0;
    int pending = 0;    ///< objects and entries that owners who are connected have not ended
    int confirmed = 0;  ///< entries whose objects were committed
    /// Whether anything of it was committed, as far as is known here.
    bool counts() const { return index.size() > 0 || confirmed > 0; }
    bool unused() const { return pending == 0 && index.size() == 0 && entry_numbers.empty(); }
  };
  /// What became of the object of an entry, as far as is known here.
  enum class Entry {
    pending,    ///< its owner is putting it
    confirmed,  ///< it was committed
    doubtful    ///< its owner was lost: only its primary knows
  };
  struct IndexEntry {
    RemoteObject where;
    Box box;
    ClientConnection client = 0;
    Entry state = Entry::pending;
    std::string variable;
    std::int64_t version = 0;
  };
  struct Variable {
    explicit Variable(std::size_t intervals_max) : discarded(intervals_max) {}

    std::uint64_t incarnation = 0;  ///< as Incarnation::number
    std::string type;
    std::int64_t element_bytes = 0;
    int rank = 0;
    std::optional<Box> bounds;  ///< around what was committed here
    std::map<std::int64_t, Version> versions;
    int held = 0;  ///< versions that count
    DiscardedVersions discarded;
    bool was_discarded(std::int64_t version) const {
      return !versions.contains(version) && discarded.contains(version);
    }
  };

  Result<Variable*> variable_for(const PutRequest& request);
  Result<Variable*> make_variable(const PutRequest& request);
  Status check_limits(ClientConnection client, const Variable& variable,
                      std::int64_t version) const;
  Status check_leases(ClientConnection client) const;
  void erase_variable(ByName<Variable>::Map::iterator found);
  void take_out(const std::string& name, Variable& variable, std::int64_t version);
  Result<std::variant<Range, Waiting>> make_room(const PutRequest& request, std::uint64_t object,
                                                 const RoomRequest& asking);
  Object* begun_by(ClientConnection client, std::uint64_t object);
  bool discard_oldest(const PutRequest& but_this);
  std::string why_full() const;
  void give_up(std::uint64_t object);
  IndexEntry* entry_of(const std::string& variable, std::int64_t version, const ObjectId& object);
  Result<const Variable*> variable_of(const GetRequest& request) const;
  Result<std::variant<FoundObjects, Waiting, NeedsOtherServers>> get_version(
      ClientConnection client, const GetRequest& request, const Variable& variable,
      std::int64_t version, RequestId request_id);
  bool meets(const Version& version, const Box& box) const;
  std::vector<StoredObject> own_objects(const Version& version, const Box& box) const;
  std::uint64_t keep(ClientConnection client, RequestId request_id,
                     std::vector<std::uint64_t> objects);
  Error discarded(const std::string& name, const Variable& variable, std::int64_t version) const;
  void discard_version(const std::string& name, Variable& variable, std::int64_t version);
  void keep_to_versions(const std::string& name, Variable& variable);
  void drop_if_unused(const std::string& name, std::int64_t version);
  void drop(std::uint64_t object);
  void loosen(Lease& lease);
  void end_lease(std::uint64_t number);
  void let_go(std::uint64_t object);

  Options options_;
  Residency residency_;
  ByName<Variable> variables_;
  std::unordered_map<std::uint64_t, Object> objects_;
  std::unordered_map<std::uint64_t, IndexEntry> index_entries_;
  Leases leases_;
  Deletions deletions_;
  std::int64_t fenced_bytes_ = 0;
  std::uint64_t last_object_ = 0;  ///< numbers of objects, and of those elsewhere
  std::uint64_t order_ = 0;        ///< the highest that is known
  std::vector<Orphan> orphans_;
  std::size_t overflow_entries_ = 0;   ///< entries whose objects would be orphans
  std::set<std::uint64_t> forgotten_;  ///< the last objects whose owners discarded their versions
  std::set<std::string> changes_;
};

}  // namespace tranship::staging
