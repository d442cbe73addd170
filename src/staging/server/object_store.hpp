// The objects of a staging server: variables, versions, boxes. A state machine that moves no bytes
// and has no clock.
#pragma once

#include <cstdint>
#include <functional>
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
#include "staging/model/deletions.hpp"
#include "staging/model/leases.hpp"
#include "staging/model/limits.hpp"
#include "staging/model/parts.hpp"
#include "staging/model/requests.hpp"
#include "staging/model/residency.hpp"
#include "staging/model/steps.hpp"
#include "staging/server/held_variables.hpp"
#include "staging/server/index_entries.hpp"
#include "staging/server/object_reads.hpp"
#include "staging/server/object_table.hpp"
#include "staging/server/withheld_steps.hpp"

namespace tranship::staging {

/// What a put does when the memory is full.
enum class Full {
  block,           ///< It waits until a client discards versions.
  discard_oldest,  ///< The oldest versions that no client reads are discarded.
  spill            ///< The oldest objects that no client reads go to disk.
};

/// The objects of one server, and index entries for those objects of other servers whose boxes meet
/// its cells. Decides what a put may write, what a get sees, what waits and what is discarded.
/// Laws: an object is visible whole, from commit() on, or not at all. What a get returned stays as
/// it is until its lease ends. Of overlapping objects of one version the one that was committed
/// last is seen; an object that later ones hide whole is dropped. A version goes by discard(), by
/// the limits of the options, and in no other way; a request for it afterwards is an error that
/// says so. A put that never ends changes no version: limits count what was committed. Objects on
/// disk are there as before, but for the time that it takes to bring them back. Memory that was
/// given to a client is given to no other one before the client gave it up, or gone() said that it
/// cannot access it. Costs are logarithms of the number of objects, and linear in the answer. Not
/// thread-safe.
class ObjectStore {
 public:
  struct Options {
    std::int64_t memory_bytes = 0;
    std::int64_t segment_bytes = std::int64_t{64} << 20;
    int versions_max = 0;  ///< Of a variable; 0: any number.
    Full full = Full::block;
    std::int64_t spill_bytes = spill_bytes_unlimited;  ///< Capacity on disk, for Full::spill.
    int server = 0;                                    ///< Its number in the group.
    int servers = 1;                                   ///< Servers of the group.
    Limits limits{};
    std::function<std::int64_t()> now_ns{};  ///< As ObjectReads::Options.
    /// As Residency::Options.
    std::function<Status(std::int64_t bytes)> make_segment;
    std::function<Status(const Range& part)> take_pages{};
    std::function<void(const Range& segment)> give_back_pages{};
    /// Called for each version that is discarded; may be empty.
    std::function<void(const std::string& variable, std::int64_t version)> on_discard;
  };
  explicit ObjectStore(Options options);
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;

  /// Grants room for an object, or says why the put must wait.
  /// @error invalid_argument if it does not fit the variable; out_of_memory if no room could ever
  ///        be made; not_found if the version was discarded
  Result<std::variant<GrantedRoom, Waiting>> begin(ClientConnection client,
                                                   const PutRequest& request,
                                                   const RoomRequest& room = {});
  /// Takes the pages of an object that was begun with `ready` false and is about to be written.
  /// @error not_found if the client has begun no such object; out_of_memory if the system has none
  Status take_pages(ClientConnection client, std::uint64_t object);
  /// As Residency.
  Status add_stock(std::int64_t bytes) { return residency_.add_stock(bytes); }
  std::optional<Range> claim_stock(std::int64_t bytes) { return residency_.claim_stock(bytes); }
  void return_stock(const Range& part, bool ready) { residency_.return_stock(part, ready); }
  /// Makes an object visible, or has it withheld until its step is whole. Returns its order, which
  /// is above that of every object that this server knows, and above `order_before`.
  /// @error not_found if the client has begun no such object, or its version was discarded
  ///        meanwhile, or its step has ended; invalid_argument if its pages were never taken
  Result<std::uint64_t> commit(ClientConnection client, std::uint64_t object,
                               std::uint64_t order_before = 0, const Checksum& checksum = {});
  /// Gives up an object that was begun, and frees its room.
  Status abort(ClientConnection client, std::uint64_t object);

  /// Indexes the box of an object that the client writes on another server, before its commit
  /// there. Returns an order that is above that of every object that this server knows. The entry
  /// counts for no limit of versions before confirm().
  /// @error as begin(); invalid_argument if it was indexed before
  Result<std::uint64_t> index(ClientConnection client, const PutRequest& request,
                              const RemoteObject& where);
  /// Removes an entry. The client that made it may do so before confirm(); any client may once that
  /// client is lost.
  void unindex(ClientConnection client, const std::string& variable, std::int64_t version,
               const ObjectId& object);
  /// Records that the object of an entry was committed with that order: its version counts for
  /// limits from now on. The same clients may do so as in unindex().
  void confirm(ClientConnection client, const std::string& variable, std::int64_t version,
               const ObjectId& object, std::uint64_t order);

  /// Removes and returns orphans, at most `count_max`, each once. The client reports them to their
  /// primaries, which call drop_orphan().
  std::vector<Orphan> take_orphans(std::size_t count_max) {
    return entries_.take_orphans(count_max);
  }
  /// Records that an index server of the object's box has discarded its version, or has an object
  /// that hides it. When all have, no reader can find the object, and it is dropped.
  void drop_orphan(std::uint64_t object, int index_server);

  /// Begins an object that stays in the client's memory, and returns its number. commit() makes it
  /// visible, as any other; abort() and undo() give it up.
  /// @error as begin()
  Result<std::uint64_t> begin_offer(ClientConnection client, const PutRequest& request,
                                    OfferedMemory memory, RequestId request_id = 0);
  /// Withdraws an offer of the client: no further get finds it. It ends when it is read no more.
  void withdraw_offer(ClientConnection client, std::uint64_t object);
  /// Returns whether an offer of the client has not ended: it can be found, or is read.
  bool has_offer(ClientConnection client, std::uint64_t object) const;
  /// Returns why an offer has not ended. `name_of`: Returns the name of a client that reads it.
  std::string why_offered(std::uint64_t object,
                          const std::function<std::string(ClientConnection)>& name_of) const;
  /// Returns where an object of a lease lies that a client offers.
  /// @error not_found if the lease keeps no such object; peer_lost if that client is lost
  Result<OfferedMemory> find_offer(ClientConnection client, std::uint64_t lease,
                                   std::uint64_t object) const;
  /// Removes the index entry of an offer that was withdrawn, if the client has made the entry.
  void withdraw_entry(ClientConnection client, const std::string& variable, std::int64_t version,
                      const ObjectId& object);
  /// Returns what take_changes() names when an offer has ended. No variable has that name.
  static std::string offer_watch(std::uint64_t object) {
    return "\noffer " + std::to_string(object);
  }

  /// Puts a box without elements, as protocol::PutEmpty describes it.
  /// @error as begin()
  Status put_empty(ClientConnection client, const PutRequest& request, std::uint32_t dimensions);
  /// Returns the chosen version of which something was put here, and the box around that; its own
  /// box is ignored.
  /// @error not_found if the version was discarded
  Result<std::variant<Extent, Waiting>> extent(const GetRequest& request) const;

  /// Ends a step: what is withheld of it becomes visible, all at once, if it is whole, and is
  /// dropped otherwise. Nothing more can be committed within it. Freed: the versions that it has
  /// shown are discarded, too.
  void end_step(StepId step, StepState state);

  /// Finds and leases the objects of this server that cover the box.
  /// @error not_found if the version was discarded; invalid_argument if the box has another rank
  Result<std::variant<FoundObjects, Waiting, NeedsOtherServers>> get(ClientConnection client,
                                                                     const GetRequest& request,
                                                                     RequestId request_id = 0);
  /// Finds the objects that share points with the box, of this server and of others, and leases
  /// those of this server. The version is the chosen one; for `latest`, the highest one that has
  /// something of the box.
  /// @error as get()
  Result<std::variant<FoundObjects, Waiting>> find(ClientConnection client,
                                                   const GetRequest& request,
                                                   RequestId request_id = 0);
  /// Returns the state of objects of this server that find() named on other servers. `lease` keeps
  /// those that are here.
  /// @error not_found if the version was discarded here
  Result<std::vector<LeasedObject>> lease(ClientConnection client, const std::string& variable,
                                          std::int64_t version,
                                          std::span<const std::uint64_t> objects,
                                          std::uint64_t& lease, RequestId request_id = 0);
  /// Returns the box and the place of an object that a lease keeps in memory.
  /// @error not_found if there is no such lease, or it does not
  Result<std::pair<Box, Range>> in_memory(ClientConnection client, std::uint64_t lease,
                                          std::uint64_t object) {
    return reads_.in_memory(client, lease, object);
  }
  /// Brings an object of a lease back into memory, where it stays until the next recall() of this
  /// lease, or its end; the lease's other objects may go to disk meanwhile. Object 0: all may.
  /// The lease keeps all of them from being discarded in any case.
  /// @error not_found if there is no such lease; io if the disk does not give it back
  Result<std::variant<Range, Waiting>> recall(ClientConnection client, std::uint64_t lease,
                                              std::uint64_t object) {
    return reads_.recall(client, lease, object);
  }
  Status release(ClientConnection client, std::uint64_t lease) {
    return reads_.release(client, lease);
  }
  /// Gives back what the request with that id was granted: room, or leases. Returns the leases.
  std::vector<std::uint64_t> undo(ClientConnection client, RequestId request_id);

  /// Returns moves between memory and disk, to be carried out in this order. Call it after each
  /// call of the other members.
  std::vector<Move> take_moves() { return residency_.take_moves(); }
  /// Records how a move ended.
  void ended(const Move& move, const Status& status);

  /// Discards a version. What is being written to it cannot be committed any more.
  /// @error not_found if it is not there
  Status discard(const std::string& variable, std::int64_t version);
  /// Discards a version, as above, that another server has discarded, and of which this one may
  /// have nothing, not even the variable: it remembers that the version was discarded. The request
  /// says what the variable is.
  /// @error not_found if a later variable has that name; as begin(), if the variable cannot be made
  Status discard_too(const PutRequest& request);

  /// Returns whether the variable was deleted since the client has asked its metadata server for
  /// it. The client must ask again before it goes on.
  bool stale(const std::string& variable, const Incarnation& incarnation) const {
    return deletions_.stale(variable, incarnation);
  }
  /// Deletes a variable with all its versions, as discard() does, and all that was remembered of
  /// it: the next put decides anew what it is. `number`: The deletion's number, counted by the
  /// metadata server. Returns whether there was anything of the variable.
  bool remove(const std::string& variable, std::uint64_t number);

  /// The client's connection is lost, and its process may still access what it was given. What it
  /// had begun can be committed no more, and counts as given up for waiting readers. Its memory,
  /// and the memory that it reads, is fenced until gone(). Final: a client that connects again has
  /// another ClientConnection.
  void lost(ClientConnection client);
  /// The client's process provably accesses nothing any more: it said so, or it is dead. Its memory
  /// is free. lost() need not have been called before.
  void gone(ClientConnection client);

  /// Returns the variables of which objects have been committed here, without their producers.
  std::vector<VariableInfo> list() const;
  /// Returns their names from `first` on, in order, at most `count_max`.
  std::vector<std::string> names_from(const std::string& first, std::size_t count_max) const {
    return variables_.names_from(first, count_max);
  }
  /// Returns one variable with its versions above `after` (empty: all), at most `versions_max`.
  std::optional<VariableInfo> info(const std::string& variable,
                                   std::optional<std::int64_t> after = {},
                                   std::size_t versions_max = SIZE_MAX) const {
    return variables_.info(variable, after, versions_max);
  }
  /// Returns one variable without its versions.
  std::optional<VariableInfo> describe(const std::string& variable) const {
    return variables_.describe(variable);
  }
  std::int64_t memory_bytes_used() const { return residency_.memory_bytes_used(); }
  std::int64_t sparse_bytes() const { return residency_.sparse_bytes(); }
  std::int64_t spilled_bytes() const { return residency_.spilled_bytes(); }
  std::int64_t disk_bytes_used() const { return residency_.disk_bytes_used(); }
  /// Returns the bytes of objects that lost clients may still write.
  std::int64_t fenced_bytes() const { return fenced_bytes_; }
  /// Returns the number of steps of which something is withheld.
  std::size_t withheld_steps() const { return steps_.size(); }
  /// Returns whether connected clients write or read objects.
  bool busy() const { return leases_.busy(); }

  /// Returns the variables that have changed since the last call. An empty name: memory was freed,
  /// or an object came back from disk.
  std::set<std::string> take_changes();

 private:
  using Got = std::variant<FoundObjects, Waiting, NeedsOtherServers>;

  Result<HeldVariable*> incarnation_of(const PutRequest& request);
  Result<HeldVariable*> variable_for(const PutRequest& request);
  Status check_limits(ClientConnection client, const HeldVariable& variable,
                      std::int64_t version) const;
  void erase_variable(const std::string& name, HeldVariable& variable);
  ServerObject& add_begun(ClientConnection client, std::uint64_t number, const PutRequest& request,
                          HeldVariable& variable, RequestId request_id);
  Result<std::variant<Range, Waiting>> make_room(const PutRequest& request, std::uint64_t object,
                                                 const RoomRequest& room);
  ServerObject* begun_by(ClientConnection client, std::uint64_t object);
  bool discard_oldest(const PutRequest& but_this);
  std::string why_full() const;
  void show(std::uint64_t number, std::uint64_t order);
  void show_entry(std::uint64_t number);
  void end_empty(const std::string& name, std::int64_t number, const WithheldStep::Empty& empty,
                 std::uint64_t step, bool whole);
  void drop_withheld(std::uint64_t number);
  void free_step(StepId step);
  void drop_entry(std::uint64_t number);
  void give_up(std::uint64_t object);
  std::optional<std::uint64_t> entry_of(const std::string& variable, std::int64_t version,
                                        const ObjectId& object) const;
  std::optional<std::uint64_t> open_entry_of(ClientConnection client, const std::string& variable,
                                             std::int64_t version, const ObjectId& object) const;
  Result<Got> get_version(ClientConnection client, const GetRequest& request,
                          const HeldVariable& variable, std::int64_t version, RequestId request_id);
  std::vector<StoredObject> own_objects(const VersionIndex& version, const Box& box) const;
  Error discarded(const std::string& name, const HeldVariable& variable,
                  std::int64_t version) const;
  void discard_version(const std::string& name, HeldVariable& variable, std::int64_t version);
  void discard_excess(const std::string& name, HeldVariable& variable);
  void drop_version(const std::string& name, std::int64_t version, const VersionIndex& index,
                    const std::vector<std::uint64_t>& steps);
  void drop_hidden(const std::string& name, std::int64_t version, const Box& box,
                   std::uint64_t order);
  void drop_if_hidden(std::uint64_t number);
  bool hides(const VersionIndex& index, const Box& box, std::uint64_t order) const;
  bool is_hidden(const VersionIndex& index, ServerObject& object, const Box& box,
                 std::uint64_t order);
  bool is_hidden_by_all(const VersionIndex& index, ServerObject& object);
  void drop_if_unused(const std::string& name, std::int64_t version);
  void drop(std::uint64_t object);
  void take_out(std::uint64_t object);
  void end_offer(ClientConnection client, std::uint64_t object);
  void lose_offers(ClientConnection client);

  Options options_;
  Residency residency_;
  HeldVariables variables_;
  ObjectTable objects_;
  IndexEntries entries_;
  WithheldSteps steps_;
  ShownSteps shown_;
  Leases leases_;
  Deletions deletions_;
  ObjectReads reads_;
  std::unordered_map<ClientConnection, std::set<std::uint64_t>> offers_;  ///< Of each client.
  std::int64_t fenced_bytes_ = 0;
  std::uint64_t last_object_ = 0;  ///< Numbers of objects and of index entries.
  std::uint64_t order_ = 0;        ///< The highest order that is known.
  std::set<std::string> changes_;
};

}  // namespace tranship::staging
