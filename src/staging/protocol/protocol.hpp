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

#include "staging/model/limits.hpp"
#include "staging/model/requests.hpp"
#include "staging/model/variable.hpp"
#include "staging/protocol/coder.hpp"

namespace tranship::staging {

constexpr std::uint32_t staging_version = 9;

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

/// Most orphans in one message.
constexpr std::uint32_t orphans_max = 64;
/// Most servers of a group.
constexpr int servers_max = 1 << 16;
/// Highest order of a commit. No group reaches it.
constexpr std::uint64_t order_max = std::uint64_t{1} << 62;
/// Highest number of a deletion. No metadata server reaches it.
constexpr std::uint64_t deletion_max = std::uint64_t{1} << 62;
/// Most bytes of a client's name, and of a server's contact.
constexpr std::size_t label_bytes_max = 256;

// --- values that several messages hold ---

/// Visits the bounds of a box that may have more points than 63 bits count.
void visit_bounds(auto& coder, auto& box) {
  if constexpr (std::remove_reference_t<decltype(coder)>::reads) box.upper.fill(1);
  coder(box.rank).check(box.rank >= 0 && box.rank <= dimensions_max);
  for (int k = 0; coder.ok() && k < box.rank; ++k) {
    auto& lower = box.lower[static_cast<std::size_t>(k)];
    auto& upper = box.upper[static_cast<std::size_t>(k)];
    coder(lower)(upper).check(lower < upper && lower >= -index_most && upper <= index_most);
  }
}

/// Returns whether 63 bits count the points of a box.
bool is_countable(const Box& box);
/// Checks the name of a variable.
/// @error invalid_argument unless it is plain text of 1 to name_bytes_most bytes
Status check_name(const std::string& variable);
/// Returns whether a variable may have elements of that type and size.
bool is_element(const std::string& type, std::int64_t bytes);

template <>
struct Fields<Box> {
  static void visit(auto& coder, auto& box) {
    visit_bounds(coder, box);
    coder.check(!coder.reads || (coder.ok() && is_countable(box)));
  }
};

/// Visits bounds of a variable, if there are any.
void visit_optional_bounds(auto& coder, auto& bounds) {
  bool there = bounds.has_value();
  coder(there);
  if (!there || !coder.ok()) return;
  if constexpr (std::remove_reference_t<decltype(coder)>::reads) bounds.emplace();
  visit_bounds(coder, *bounds);
}

template <>
struct Fields<Range> {
  static void visit(auto& coder, auto& range) {
    coder(range.segment).check(range.segment >= -1);
    coder(range.offset)(range.bytes).check(range.offset >= 0 && range.bytes >= 0);
  }
};

template <>
struct Fields<Checksum> {
  static void visit(auto& coder, auto& checksum) {
    coder(checksum.known).check(checksum.known <= 1);
    coder(checksum.crc);
  }
};

template <>
struct Fields<Incarnation> {
  static void visit(auto& coder, auto& incarnation) {
    coder(incarnation.number)(incarnation.stamp).check(incarnation.number <= incarnation.stamp);
  }
};

template <>
struct Fields<ClientId> {
  static void visit(auto& coder, auto& id) { coder(id.high)(id.low); }
};

template <>
struct Fields<ObjectId> {
  static void visit(auto& coder, auto& object) {
    coder(object.primary).check(object.primary >= 0 && object.primary < servers_max)(object.object);
  }
};

template <>
struct Fields<PutRequest> {
  static void visit(auto& coder, auto& put) {
    coder(put.variable).require([&] { return check_name(put.variable); });
    coder(put.version)(put.box)(put.type)(put.element_bytes);
    coder.require([&] { return check_element(put); });
    coder(put.incarnation);
  }
};

template <>
struct Fields<GetRequest> {
  static void visit(auto& coder, auto& get) {
    coder(get.variable).require([&] { return check_name(get.variable); });
    coder(get.choice)
        .check(get.choice >= VersionChoice::exact && get.choice <= VersionChoice::latest);
    coder(get.version)(get.box)(get.incarnation);
  }
};

template <>
struct Fields<StoredObject> {
  static void visit(auto& coder, auto& seen) {
    coder(seen.primary).check(seen.primary >= 0 && seen.primary < servers_max);
    coder(seen.object)(seen.order).check(seen.order <= order_max);
    coder(seen.checksum)(seen.range)(seen.box);
  }
};

template <>
struct Fields<LeasedObject> {
  static void visit(auto& coder, auto& leased) {
    coder(leased.state);
    coder.check(leased.state >= LeasedObject::State::here &&
                leased.state <= LeasedObject::State::gone);
    coder(leased.order).check(leased.order <= order_max);
    coder(leased.checksum)(leased.range);
  }
};

template <>
struct Fields<Cells> {
  /// The order of the cells is not sent: each receiver computes it.
  static void visit(auto& coder, auto& cells) {
    for (std::size_t k = 0; k < cells.extents.size(); ++k) {
      coder(cells.origin[k])(cells.extents[k])(cells.lower[k])(cells.upper[k]);
      coder.check(cells.origin[k] >= 0 && cells.origin[k] < cells.extents[k]);
    }
  }
};

template <>
struct Fields<VariableMetadata> {
  static void visit(auto& coder, auto& metadata) {
    coder(metadata.type)(metadata.element_bytes)
        .check(is_element(metadata.type, metadata.element_bytes));
    coder(metadata.first)(metadata.incarnation)(metadata.cells);
    if constexpr (std::remove_reference_t<decltype(coder)>::reads) {
      metadata.cells.rank = metadata.first.rank;
    }
    coder(metadata.domain).check(!metadata.domain || metadata.domain->rank == metadata.first.rank);
    coder(metadata.writers)(metadata.came)(metadata.producers).check(metadata.producers >= 0);
    coder(metadata.missing)(metadata.deaths).check(metadata.missing >= 0 && metadata.deaths >= 0);
  }
};

template <>
struct Fields<TransferTotals> {
  static void visit(auto& coder, auto& moved) {
    coder(moved.count)(moved.bytes).check(moved.count >= 0 && moved.bytes >= 0);
    coder.counts(moved.paths, 2 * paths_max);
  }
};

template <>
struct Fields<VersionInfo> {
  static void visit(auto& coder, auto& version) {
    coder(version.version)(version.objects)(version.bytes);
    coder.check(version.objects >= 0 && version.bytes >= 0);
  }
};

template <>
struct Fields<VariableInfo> {
  static void visit(auto& coder, auto& info) {
    coder(info.name).require([&] { return check_name(info.name); });
    coder(info.type)(info.element_bytes).check(is_element(info.type, info.element_bytes));
    visit_bounds(coder, info.bounds);
    coder(info.traffic.puts)(info.traffic.gets);
    coder(info.producers).check(info.producers >= 0).list(info.versions);
  }
};

template <>
struct Fields<ServerInfo> {
  static void visit(auto& coder, auto& info) {
    coder(info.server)(info.contact).check(is_plain_text(info.contact));
    coder(info.memory_bytes)(info.memory_bytes_used)(info.spilled_bytes)(info.clients);
    coder.list(info.names);
  }
};

// --- replies ---

namespace protocol {

/// The request was carried out.
struct Done {
  static constexpr ReplyKind kind = ReplyKind::done;
  static void visit(auto&, auto&) {}
};

/// The request must wait: the client repeats it after the next notice.
struct Wait {
  static constexpr ReplyKind kind = ReplyKind::waiting;
  std::string why{};
  static void visit(auto& coder, auto& wait) { coder.explanation(wait.why); }
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
  std::vector<std::string> contacts{};
  static void visit(auto& coder, auto& welcome) {
    coder(welcome.message_bytes).check(welcome.message_bytes >= message_bytes_least);
    coder(welcome.data_bytes).check(welcome.data_bytes >= 0);
    coder.check(welcome.data_bytes <= inline_bytes(welcome.message_bytes));
    coder(welcome.server)(welcome.servers);
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
  static void visit(auto& coder, auto& described) {
    coder(described.metadata);
    visit_optional_bounds(coder, described.bounds);
    coder.check(!described.bounds || described.bounds->rank == described.metadata.first.rank);
  }
};

struct BoundsReply {
  static constexpr ReplyKind kind = ReplyKind::done;
  std::optional<Box> bounds{};
  static void visit(auto& coder, auto& here) { visit_optional_bounds(coder, here.bounds); }
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
  static void visit(auto& coder, auto& declare) { coder(declare.object); }
};

/// Asks for the metadata of a variable; waits until it exists.
struct Describe {
  static constexpr RequestKind kind = RequestKind::describe;
  using Reply = std::variant<Described, Wait>;
  std::string variable{};
  bool watch = false;  ///< Whether a notice is sent when the variable changes.
  static void visit(auto& coder, auto& describe) {
    coder(describe.variable).require([&] { return check_name(describe.variable); });
    coder(describe.watch);
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
  static void visit(auto& coder, auto& put) { coder(put.object)(put.data)(put.checksum); }
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
  static void visit(auto& coder, auto& commit) {
    coder(commit.object)(commit.order_before).check(commit.order_before <= order_max);
    coder(commit.variable)(commit.bytes).check(commit.bytes >= 0);
    coder(commit.path)(commit.checksum);
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
struct Entry {
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
  Entry entry{};
  static void visit(auto& coder, auto& unindex) { coder(unindex.entry); }
};

/// Confirms an index entry: its object was committed with that order.
struct Confirm {
  static constexpr RequestKind kind = RequestKind::confirm;
  using Reply = DoneWithOrphans;
  Entry entry{};
  std::uint64_t order = 0;
  static void visit(auto& coder, auto& confirm) {
    coder(confirm.entry)(confirm.order).check(confirm.order <= order_max);
  }
};

/// Asks for a box that one server indexes: its data if they are few, else the objects.
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

using Requests =
    std::tuple<Hello, Join, Define, Declare, Describe, Bounds, Put, Begin, TakePages, Commit, Abort,
               Index, Unindex, Confirm, Get, QueryVersion, Find, Lease, More, Recall, Release, Undo,
               DropOrphans, Discard, DiscardToo, Remove, List, QueryStatus>;

}  // namespace protocol

}  // namespace tranship::staging
