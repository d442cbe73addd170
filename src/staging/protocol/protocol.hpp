// The messages between clients and servers of the staging service. Each message is a struct that
// lists its fields once, with the checks on them. docs/internals/staging-protocol.md has the
// table.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "staging/protocol/values.hpp"

namespace tranship::staging {

constexpr std::uint32_t staging_version = 12;

/// First field of a request. Requests about a variable go to its metadata server, those about an
/// object to its primary, and those about a box to its index servers (model/distribution.hpp).
enum class RequestKind : std::uint32_t {
  hello = 1,
  join,
  define,
  declare,
  describe,
  bounds,
  put,
  begin,
  commit,
  abort,
  index,
  unindex,
  confirm,
  get,
  find,
  lease,
  more,
  recall,
  release,
  undo,
  drop_orphans,
  wait,
  discard,
  remove,
  list,
  status,
  take_pages,
  discard_too,
  finish,
  put_empty,
  extent,
};

/// First field of a reply.
enum class ReplyKind : std::uint32_t {
  done = 1,
  waiting,
  objects,
  data,
  needs_other_servers,
  stale,
};

/// Name under which a segment of a server's memory is exported, followed by its number.
constexpr const char* segment_name = "staging/segment/";

/// Least capacity of a server's messages, in bytes.
constexpr std::int64_t message_bytes_least = 4096;

/// Returns the largest payload that is sent inside a message of at most `message_bytes_max` bytes.
/// A larger object is copied by the client's engine, which is as fast from there on.
constexpr std::int64_t inline_bytes(std::int64_t message_bytes_max) {
  return std::min<std::int64_t>(64 * 1024, message_bytes_max / 4);
}

// --- replies ---

namespace protocol {

/// The request was carried out.
struct Done {
  static constexpr ReplyKind kind = ReplyKind::done;
  static void visit(auto&, auto&) {}
};

/// The request must wait: the client repeats it after the next notice, unless nobody puts to the
/// variable any more.
struct Wait {
  static constexpr ReplyKind kind = ReplyKind::waiting;
  std::string why{};
  Ending ending = Ending::none;
  bool gap = false;          ///< Whether `version` has something of the box, and not all.
  std::int64_t version = 0;  ///< As Waiting::gap.
  static void visit(auto& coder, auto& wait) {
    coder.explanation(wait.why);
    coder(wait.ending).check(wait.ending >= Ending::none && wait.ending <= Ending::died);
    coder(wait.gap)(wait.version);
  }
};

/// The variable was deleted: the client asks its metadata server for it and repeats the request.
struct Stale {
  static constexpr ReplyKind kind = ReplyKind::stale;
  static void visit(auto&, auto&) {}
};

/// The box meets objects of other servers: the client sends Find to all its index servers.
struct NeedsOtherServers {
  static constexpr ReplyKind kind = ReplyKind::needs_other_servers;
  static void visit(auto&, auto&) {}
};

/// The server's number and limits. The first server adds the contacts of all, its own included.
struct Welcome {
  static constexpr ReplyKind kind = ReplyKind::done;
  std::int64_t message_bytes = 0;
  std::int64_t data_bytes = 0;  ///< Largest object sent inside a message; 0: none is.
  int server = 0;
  int servers = 0;
  /// How many segments, from the first on, get their pages before objects need them.
  int segments_ahead = 0;
  std::vector<std::string> contacts{};
  static void visit(auto& coder, auto& welcome) {
    coder(welcome.message_bytes).check(welcome.message_bytes >= message_bytes_least);
    coder(welcome.data_bytes).check(welcome.data_bytes >= 0);
    coder.check(welcome.data_bytes <= inline_bytes(welcome.message_bytes));
    coder(welcome.server)(welcome.servers)(welcome.segments_ahead);
    coder.check(welcome.segments_ahead >= 0);
    coder.check(welcome.servers >= 1 && welcome.servers <= servers_max);
    coder.check(welcome.server >= 0 && welcome.server < welcome.servers);
    const auto named = static_cast<std::size_t>(welcome.server == 0 ? welcome.servers : 0);
    coder.list(welcome.contacts, servers_max).check(welcome.contacts.size() == named);
  }
};

/// The metadata of a variable.
struct Declared {
  static constexpr ReplyKind kind = ReplyKind::done;
  VariableMetadata metadata{};
  static void visit(auto& coder, auto& declared) { coder(declared.metadata); }
};

/// The metadata of a variable, and the box around its objects on its metadata server.
struct Described {
  static constexpr ReplyKind kind = ReplyKind::done;
  VariableMetadata metadata{};
  std::optional<Box> bounds{};
  int awaited = 0;     ///< Clients that have not taken part in the version that was asked for.
  int fresh = 0;       ///< Those of them that have put no box to the variable yet.
  bool never = false;  ///< Whether such a client has ended.
  static void visit(auto& coder, auto& described) {
    coder(described.metadata);
    visit_optional_bounds(coder, described.bounds);
    coder.check(!described.bounds || described.bounds->rank == described.metadata.first.rank);
    coder(described.awaited).check(described.awaited >= 0);
    coder(described.fresh).check(described.fresh >= 0)(described.never);
  }
};

struct BoundsReply {
  static constexpr ReplyKind kind = ReplyKind::done;
  std::optional<Box> bounds{};
  static void visit(auto& coder, auto& here) { visit_optional_bounds(coder, here.bounds); }
};

/// A version of which a server has something: the box around its objects there, and a box without
/// elements that was put, if there are any.
struct ExtentFound {
  static constexpr ReplyKind kind = ReplyKind::done;
  Extent extent{};
  static void visit(auto& coder, auto& found) {
    auto& extent = found.extent;
    coder(extent.version);
    visit_optional_bounds(coder, extent.bounds);
    visit_optional_bounds(coder, extent.empty);
    coder(extent.empty_dimensions);
    coder.check(!coder.reads || (coder.ok() && is_empty_part(extent)));
  }
};

/// The request was carried out. The client sends DropOrphans to the primaries of these objects.
struct DoneWithOrphans {
  static constexpr ReplyKind kind = ReplyKind::done;
  std::vector<Orphan> orphans{};
  static void visit(auto& coder, auto& done) { coder.list(done.orphans, orphans_max); }
};

/// Room was granted for an object.
struct RoomGranted {
  static constexpr ReplyKind kind = ReplyKind::done;
  std::uint64_t object = 0;
  Range range{};
  std::vector<Orphan> orphans{};
  static void visit(auto& coder, auto& room) {
    coder(room.object)(room.range).check(room.range.segment >= 0);
    coder.list(room.orphans, orphans_max);
  }
};

/// The order of a commit (reply to Commit), or one below that of the commit to come (to Index).
struct Ordered {
  static constexpr ReplyKind kind = ReplyKind::done;
  std::uint64_t order = 0;
  std::vector<Orphan> orphans{};
  static void visit(auto& coder, auto& ordered) {
    coder(ordered.order).check(ordered.order <= order_max);
    coder.list(ordered.orphans, orphans_max);
  }
};

/// Objects that meet a box, as many as fit into the message.
struct Objects {
  static constexpr ReplyKind kind = ReplyKind::objects;
  FoundObjects found{};
  std::uint32_t left = 0;  ///< Objects that did not fit; More fetches them.
  static void visit(auto& coder, auto& objects) {
    auto& found = objects.found;
    coder(found.version)(found.type)(found.element_bytes);
    coder.check(is_element(found.type, found.element_bytes));
    coder(found.lease)(objects.left).check(objects.left <= list_max);
    coder.list(found.objects);
  }
};

/// The elements of a box, dense, the last dimension fastest.
struct InlineData {
  static constexpr ReplyKind kind = ReplyKind::data;
  std::int64_t version = 0;
  std::string type{};
  std::int64_t element_bytes = 0;
  Payload data{};
  static void visit(auto& coder, auto& inside) {
    coder(inside.version)(inside.type)(inside.element_bytes);
    coder.check(is_element(inside.type, inside.element_bytes))(inside.data);
  }
};

struct VersionFound {
  static constexpr ReplyKind kind = ReplyKind::done;
  std::int64_t version = 0;
  static void visit(auto& coder, auto& there) { coder(there.version); }
};

/// The state of each requested object, in the order of the request. The lease keeps those that are
/// here.
struct LeaseGranted {
  static constexpr ReplyKind kind = ReplyKind::done;
  std::uint64_t lease = 0;
  std::vector<LeasedObject> objects{};
  static void visit(auto& coder, auto& here) { coder(here.lease).list(here.objects); }
};

/// An object's place in memory; segment -1 if the request named no object.
struct Recalled {
  static constexpr ReplyKind kind = ReplyKind::done;
  Range range{};
  static void visit(auto& coder, auto& recalled) { coder(recalled.range); }
};

struct Removed {
  static constexpr ReplyKind kind = ReplyKind::done;
  std::uint64_t number = 0;  ///< The deletion's number, counted by the metadata server.
  bool any = false;          ///< Whether the server held anything of the variable.
  std::vector<Orphan> orphans{};
  static void visit(auto& coder, auto& removed) {
    coder(removed.number).check(removed.number > 0 && removed.number <= deletion_max);
    coder(removed.any).list(removed.orphans, orphans_max);
  }
};

/// Variables in the order of their names, as many as fit into the message; none at the end.
struct Listed {
  static constexpr ReplyKind kind = ReplyKind::done;
  std::vector<VariableInfo> variables{};
  static void visit(auto& coder, auto& listed) { coder.list(listed.variables); }
};

struct ServerStatus {
  static constexpr ReplyKind kind = ReplyKind::done;
  ServerInfo info{};
  static void visit(auto& coder, auto& status) { coder(status.info); }
};

// --- requests ---

/// Introduces a client: the first request on each connection.
struct Hello {
  static constexpr RequestKind kind = RequestKind::hello;
  using Reply = std::variant<Welcome, Wait>;
  std::uint32_t version = staging_version;
  std::string name{};  ///< The client's name; a server makes it fit to be shown.
  ClientId client{};   ///< Identity across connections; a half of 0: none.
  static void visit(auto& coder, auto& hello) { coder(hello.version)(hello.name)(hello.client); }
};

/// Adds a server to the group. Another server sends it to the first one.
struct Join {
  static constexpr RequestKind kind = RequestKind::join;
  using Reply = Done;
  std::uint32_t version = staging_version;
  int server = 0;
  int servers = 0;
  std::string contact{};
  static void visit(auto& coder, auto& join) {
    coder(join.version)(join.server)(join.servers)(join.contact);
    coder.check(!join.contact.empty() && join.contact.size() <= label_bytes_max);
    coder.check(is_plain_text(join.contact));
  }
};

/// Defines the domain of a variable, and how many clients will put to it.
struct Define {
  static constexpr RequestKind kind = RequestKind::define;
  using Reply = Done;
  PutRequest domain{};
  int writers = 0;  ///< 0: unknown.
  static void visit(auto& coder, auto& define) { coder(define.domain)(define.writers); }
};

/// Announces that the client will put to a variable.
struct Declare {
  static constexpr RequestKind kind = RequestKind::declare;
  using Reply = Declared;
  PutRequest object{};
  bool empty = false;  ///< Whether the put has no elements.
  static void visit(auto& coder, auto& declare) { coder(declare.object)(declare.empty); }
};

/// Asks for the metadata of a variable; waits until it exists.
struct Describe {
  static constexpr RequestKind kind = RequestKind::describe;
  using Reply = std::variant<Described, Wait>;
  std::string variable{};
  bool watch = false;        ///< Whether a notice is sent when the variable changes.
  bool finished = false;     ///< Whether clients that may put more to the version are counted, too.
  std::int64_t version = 0;  ///< The version of which Described::awaited is.
  static void visit(auto& coder, auto& describe) {
    coder(describe.variable).require([&] { return check_name(describe.variable); });
    coder(describe.watch)(describe.finished)(describe.version);
  }
};

/// Asks for the box around the objects of a variable on this server.
struct Bounds {
  static constexpr RequestKind kind = RequestKind::bounds;
  using Reply = BoundsReply;
  std::string variable{};
  static void visit(auto& coder, auto& bounds) {
    coder(bounds.variable).require([&] { return check_name(bounds.variable); });
  }
};

/// Puts an object with its data, which is visible when the reply is sent.
struct Put {
  static constexpr RequestKind kind = RequestKind::put;
  using Reply = std::variant<DoneWithOrphans, Wait, Stale>;
  PutRequest object{};
  Payload data{};
  Checksum checksum{};
  bool finishes = false;  ///< Whether the client puts no more to the version.
  static void visit(auto& coder, auto& put) {
    coder(put.object)(put.data)(put.checksum)(put.finishes);
  }
};

/// Asks for room for an object.
struct Begin {
  static constexpr RequestKind kind = RequestKind::begin;
  using Reply = std::variant<RoomGranted, Wait, Stale>;
  PutRequest object{};
  Effort effort = Effort::all;
  bool ready = true;                 ///< As RoomRequest::ready.
  std::vector<int> index_servers{};  ///< Of the box, if the receiver is none of them.
  RequestId request_id = 0;
  static void visit(auto& coder, auto& begin) {
    coder(begin.object)(begin.effort);
    coder.check(begin.effort >= Effort::free_memory && begin.effort <= Effort::all);
    coder(begin.ready).list(begin.index_servers, servers_max)(begin.request_id);
  }
};

/// Announces that an object that was begun with `ready` false is about to be written: the server
/// takes the pages of its memory.
struct TakePages {
  static constexpr RequestKind kind = RequestKind::take_pages;
  using Reply = Done;
  std::uint64_t object = 0;
  static void visit(auto& coder, auto& take) { coder(take.object); }
};

/// Makes an object visible: all its elements are written.
struct Commit {
  static constexpr RequestKind kind = RequestKind::commit;
  using Reply = Ordered;
  std::uint64_t object = 0;
  std::uint64_t order_before = 0;  ///< Highest order that an index server replied.
  std::string variable{};          ///< For statistics, as bytes and path.
  std::int64_t bytes = 0;
  std::string path{};
  Checksum checksum{};
  bool finishes = false;     ///< As Put::finishes, for a primary that is the metadata server.
  std::int64_t version = 0;  ///< The object's.
  static void visit(auto& coder, auto& commit) {
    coder(commit.object)(commit.order_before).check(commit.order_before <= order_max);
    coder(commit.variable)(commit.bytes).check(commit.bytes >= 0);
    coder(commit.path)(commit.checksum)(commit.finishes)(commit.version);
  }
};

/// Gives up an object that was begun.
struct Abort {
  static constexpr RequestKind kind = RequestKind::abort;
  using Reply = Done;
  std::uint64_t object = 0;
  static void visit(auto& coder, auto& abort) { coder(abort.object); }
};

/// Has the other index servers of a box index an object that its primary has begun.
struct Index {
  static constexpr RequestKind kind = RequestKind::index;
  using Reply = std::variant<Ordered, Stale>;
  PutRequest object{};
  ObjectId id{};
  bool overflow = false;  ///< Whether its primary is an overflow server.
  static void visit(auto& coder, auto& index) { coder(index.object)(index.id)(index.overflow); }
};

/// Names an index entry.
struct IndexEntryId {
  std::string variable{};
  std::int64_t version = 0;
  ObjectId id{};
  static void visit(auto& coder, auto& entry) {
    coder(entry.variable).require([&] { return check_name(entry.variable); });
    coder(entry.version)(entry.id);
  }
};

/// Removes an index entry whose object was given up.
struct Unindex {
  static constexpr RequestKind kind = RequestKind::unindex;
  using Reply = Done;
  IndexEntryId entry{};
  static void visit(auto& coder, auto& unindex) { coder(unindex.entry); }
};

/// Confirms an index entry: its object was committed with that order.
struct Confirm {
  static constexpr RequestKind kind = RequestKind::confirm;
  using Reply = DoneWithOrphans;
  IndexEntryId entry{};
  std::uint64_t order = 0;
  static void visit(auto& coder, auto& confirm) {
    coder(confirm.entry)(confirm.order).check(confirm.order <= order_max);
  }
};

/// Asks for a box that one server indexes: its data if they are few, else the objects, those of
/// other servers included.
struct Get {
  static constexpr RequestKind kind = RequestKind::get;
  using Reply = std::variant<InlineData, Objects, Wait, NeedsOtherServers, Stale>;
  GetRequest get{};
  RequestId request_id = 0;
  static void visit(auto& coder, auto& request) { coder(request.get)(request.request_id); }
};

/// Asks for the version that a get would return now.
struct QueryVersion {
  static constexpr RequestKind kind = RequestKind::wait;
  using Reply = std::variant<VersionFound, Wait, NeedsOtherServers, Stale>;
  GetRequest get{};
  RequestId request_id = 0;
  static void visit(auto& coder, auto& request) { coder(request.get)(request.request_id); }
};

/// Asks for the objects that meet the box, those of other servers included.
struct Find {
  static constexpr RequestKind kind = RequestKind::find;
  using Reply = std::variant<Objects, Wait, Stale>;
  GetRequest get{};
  bool watch = false;  ///< Whether a notice is sent when the variable changes.
  RequestId request_id = 0;
  static void visit(auto& coder, auto& find) { coder(find.get)(find.watch)(find.request_id); }
};

/// Leases objects of this server that another server's index named.
struct Lease {
  static constexpr RequestKind kind = RequestKind::lease;
  using Reply = LeaseGranted;
  std::string variable{};
  std::int64_t version = 0;
  bool watch = false;
  std::vector<std::uint64_t> objects{};
  RequestId request_id = 0;
  static void visit(auto& coder, auto& lease) {
    coder(lease.variable).require([&] { return check_name(lease.variable); });
    coder(lease.version)(lease.watch).list(lease.objects)(lease.request_id);
  }
};

/// Asks for the objects of a Get or Find, from number `first` on, that did not fit into its reply.
struct More {
  static constexpr RequestKind kind = RequestKind::more;
  using Reply = Objects;
  std::uint64_t lease = 0;
  std::uint64_t first = 0;
  static void visit(auto& coder, auto& more) { coder(more.lease)(more.first); }
};

/// Brings an object of a lease back from disk. Object 0: none has to stay in memory any more.
struct Recall {
  static constexpr RequestKind kind = RequestKind::recall;
  using Reply = std::variant<Recalled, Wait>;
  std::uint64_t lease = 0;
  std::uint64_t object = 0;
  static void visit(auto& coder, auto& recall) { coder(recall.lease)(recall.object); }
};

/// Ends a lease.
struct Release {
  static constexpr RequestKind kind = RequestKind::release;
  using Reply = Done;
  std::uint64_t lease = 0;
  std::string variable{};  ///< For statistics, as bytes and path.
  bool counts = false;     ///< Whether this server counts the get.
  std::int64_t bytes = 0;
  std::string path{};
  static void visit(auto& coder, auto& release) {
    coder(release.lease)(release.variable)(release.counts)(release.bytes);
    coder.check(release.bytes >= 0)(release.path);
  }
};

/// Gives back what a request was granted whose reply the client did not receive.
struct Undo {
  static constexpr RequestKind kind = RequestKind::undo;
  using Reply = Done;
  RequestId request_id = 0;
  static void visit(auto& coder, auto& undo) { coder(undo.request_id); }
};

/// Tells the primary of orphans that an index server has discarded their version.
struct DropOrphans {
  static constexpr RequestKind kind = RequestKind::drop_orphans;
  using Reply = Done;
  int index_server = 0;  ///< The index server that has discarded them.
  std::vector<Orphan> orphans{};
  static void visit(auto& coder, auto& drop) {
    coder(drop.index_server).check(drop.index_server >= 0 && drop.index_server < servers_max);
    coder.list(drop.orphans, orphans_max);
  }
};

/// Discards a version of a variable.
struct Discard {
  static constexpr RequestKind kind = RequestKind::discard;
  using Reply = DoneWithOrphans;
  std::string variable{};
  std::int64_t version = 0;
  static void visit(auto& coder, auto& discard) {
    coder(discard.variable).require([&] { return check_name(discard.variable); });
    coder(discard.version);
  }
};

/// Has a server that had nothing of a version discard it, since others have: it drops what has come
/// meanwhile, and remembers that the version was discarded.
struct DiscardToo {
  static constexpr RequestKind kind = RequestKind::discard_too;
  using Reply = std::variant<DoneWithOrphans, Stale>;
  PutRequest object{};  ///< Its box is that of the variable's first put.
  static void visit(auto& coder, auto& discard) { coder(discard.object); }
};

/// Tells the metadata server that the client has taken part in versions: it has put to them, or has
/// nothing in them. With `announces` the variable need not exist yet.
struct Finish {
  static constexpr RequestKind kind = RequestKind::finish;
  using Reply = Done;
  std::string variable{};
  std::int64_t first = 1;
  std::int64_t last = 0;   ///< Below `first`: in none.
  bool finished = true;    ///< Whether it puts no more to them.
  bool announces = false;  ///< Whether it counts as one that puts to the variable.
  bool box = false;        ///< Whether it has put a box with elements.
  static void visit(auto& coder, auto& finish) {
    coder(finish.variable).require([&] { return check_name(finish.variable); });
    coder(finish.first)(finish.last)(finish.finished)(finish.announces)(finish.box);
  }
};

/// Puts a box without elements, on the metadata server.
struct PutEmpty {
  static constexpr RequestKind kind = RequestKind::put_empty;
  using Reply = std::variant<DoneWithOrphans, Stale>;
  PutRequest object{};                 ///< Its box has one index in each dimension that has none.
  std::uint32_t empty_dimensions = 0;  ///< A bit for each of these.
  bool finishes = false;               ///< As Put::finishes.
  static void visit(auto& coder, auto& put) {
    coder(put.object)(put.empty_dimensions)(put.finishes);
    coder.check(!coder.reads ||
                (coder.ok() && is_empty_part(put.object.box, put.empty_dimensions)));
  }
};

/// Asks for a version of which the server has something, and the box around that.
struct FindExtent {
  static constexpr RequestKind kind = RequestKind::extent;
  using Reply = std::variant<ExtentFound, Wait, Stale>;
  std::string variable{};
  VersionChoice choice = VersionChoice::exact;
  std::int64_t version = 0;
  Incarnation incarnation{};
  bool watch = false;  ///< Whether a notice is sent when the variable changes.
  static void visit(auto& coder, auto& find) {
    coder(find.variable).require([&] { return check_name(find.variable); });
    coder(find.choice)
        .check(find.choice >= VersionChoice::exact && find.choice <= VersionChoice::latest);
    coder(find.version)(find.incarnation)(find.watch);
  }
};

/// Deletes a variable: first on its metadata server, which numbers the deletion, then on all
/// others.
struct Remove {
  static constexpr RequestKind kind = RequestKind::remove;
  using Reply = Removed;
  std::string variable{};
  std::uint64_t number = 0;  ///< 0 in the request to the metadata server.
  static void visit(auto& coder, auto& remove) {
    coder(remove.variable).require([&] { return check_name(remove.variable); });
    coder(remove.number).check(remove.number <= deletion_max);
  }
};

/// Lists what comes after a version of a variable.
struct List {
  static constexpr RequestKind kind = RequestKind::list;
  using Reply = Listed;
  std::string after{};  ///< A variable; empty: the list begins.
  std::int64_t after_version = INT64_MAX;
  static void visit(auto& coder, auto& list) {
    coder(list.after).require([&] {
      return list.after.empty() ? Status{} : check_name(list.after);
    });
    coder(list.after_version);
  }
};

/// Asks for the server's state.
struct QueryStatus {
  static constexpr RequestKind kind = RequestKind::status;
  using Reply = ServerStatus;
  static void visit(auto&, auto&) {}
};

using Requests = std::tuple<Hello, Join, Define, Declare, Describe, Bounds, Put, Begin, TakePages,
                            Commit, Abort, Index, Unindex, Confirm, Get, QueryVersion, Find, Lease,
                            More, Recall, Release, Undo, DropOrphans, Discard, DiscardToo, Finish,
                            PutEmpty, FindExtent, Remove, List, QueryStatus>;

}  // namespace protocol

}  // namespace tranship::staging
