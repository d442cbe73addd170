// What clients and servers of the staging service say to each other: each message a struct, whose
// fields are listed once, with the checks on them. docs/internals/staging-protocol.md has the
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

constexpr std::uint32_t staging_version = 8;

/// What a request begins with. Those of a variable go to its keeper, those of an object to its
/// home, those of a box to the servers that own it (staging/distribution.hpp).
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
};

/// What a reply begins with.
enum class ReplyKind : std::uint32_t {
  done = 1,
  waiting,
  objects,
  data,
  spread,
  stale,
};

/// Segments of a server's memory are exported by this name and their number.
constexpr const char* segment_name = "staging/segment/";

/// What every server's messages hold at least.
constexpr std::int64_t message_bytes_least = 4096;

/// An object's data go inside a message of at most `message_bytes_max` up to here: beyond it a copy
/// of its own is as fast.
constexpr std::int64_t inline_bytes(std::int64_t message_bytes_max) {
  return std::min<std::int64_t>(64 * 1024, message_bytes_max / 4);
}

/// The most orphans that one message names.
constexpr std::uint32_t orphans_max = 64;
/// Servers of a group.
constexpr int servers_max = 1 << 16;
/// The highest order of a commit: no group commits so often.
constexpr std::uint64_t order_max = std::uint64_t{1} << 62;
/// The highest number of a deletion: no keeper makes or deletes so many variables.
constexpr std::uint64_t deletion_max = std::uint64_t{1} << 62;
/// Bytes of what a client calls itself, and of a server's contact.
constexpr std::size_t label_bytes_max = 256;

// --- values that several messages hold ---

/// The sides of a box, of which there may be more points than 63 bits count.
void visit_bounds(auto& coder, auto& box) {
  if constexpr (std::remove_reference_t<decltype(coder)>::reads) box.upper.fill(1);
  coder(box.rank).check(box.rank >= 0 && box.rank <= dimensions_max);
  for (int k = 0; coder.ok() && k < box.rank; ++k) {
    auto& lower = box.lower[static_cast<std::size_t>(k)];
    auto& upper = box.upper[static_cast<std::size_t>(k)];
    coder(lower)(upper).check(lower < upper && lower >= -index_most && upper <= index_most);
  }
}

/// Whether the points of a box can be counted.
bool is_countable(const Box& box);
/// @error invalid_argument unless it is the name of a variable
Status check_name(const std::string& variable);
/// Whether elements of a variable may be such.
bool is_element(const std::string& type, std::int64_t bytes);

template <>
struct Fields<Box> {
  static void visit(auto& coder, auto& box) {
    visit_bounds(coder, box);
    coder.check(!coder.reads || (coder.ok() && is_countable(box)));
  }
};

/// Bounds of a variable, if there are any.
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
struct Fields<Life> {
  static void visit(auto& coder, auto& life) {
    coder(life.life)(life.stamp).check(life.life <= life.stamp);
  }
};

template <>
struct Fields<ClientId> {
  static void visit(auto& coder, auto& id) { coder(id.high)(id.low); }
};

template <>
struct Fields<ObjectAt> {
  static void visit(auto& coder, auto& object) {
    coder(object.home).check(object.home >= 0 && object.home < servers_max)(object.object);
  }
};

template <>
struct Fields<Orphan> {
  static void visit(auto& coder, auto& orphan) {
    coder(orphan.home).check(orphan.home >= 0 && orphan.home < servers_max)(orphan.object);
  }
};

template <>
struct Fields<PutRequest> {
  static void visit(auto& coder, auto& put) {
    coder(put.variable).require([&] { return check_name(put.variable); });
    coder(put.version)(put.box)(put.type)(put.element_bytes);
    coder.require([&] { return check_element(put); });
    coder(put.life);
  }
};

template <>
struct Fields<GetRequest> {
  static void visit(auto& coder, auto& get) {
    coder(get.variable).require([&] { return check_name(get.variable); });
    coder(get.which).check(get.which >= Which::exact && get.which <= Which::latest);
    coder(get.version)(get.box)(get.life);
  }
};

template <>
struct Fields<Seen> {
  static void visit(auto& coder, auto& seen) {
    coder(seen.home).check(seen.home >= 0 && seen.home < servers_max);
    coder(seen.object)(seen.order).check(seen.order <= order_max);
    coder(seen.checksum)(seen.range)(seen.box);
  }
};

template <>
struct Fields<Leased> {
  static void visit(auto& coder, auto& leased) {
    coder(leased.state);
    coder.check(leased.state >= Leased::State::here && leased.state <= Leased::State::gone);
    coder(leased.order).check(leased.order <= order_max);
    coder(leased.checksum)(leased.range);
  }
};

template <>
struct Fields<Cells> {
  /// Without the order, which whoever needs it finds.
  static void visit(auto& coder, auto& cells) {
    for (std::size_t k = 0; k < cells.extents.size(); ++k) {
      coder(cells.origin[k])(cells.extents[k])(cells.lower[k])(cells.upper[k]);
      coder.check(cells.origin[k] >= 0 && cells.origin[k] < cells.extents[k]);
    }
  }
};

template <>
struct Fields<Facts> {
  static void visit(auto& coder, auto& facts) {
    coder(facts.type)(facts.element_bytes).check(is_element(facts.type, facts.element_bytes));
    coder(facts.first)(facts.life)(facts.cells);
    if constexpr (std::remove_reference_t<decltype(coder)>::reads) {
      facts.cells.rank = facts.first.rank;
    }
    coder(facts.domain).check(!facts.domain || facts.domain->rank == facts.first.rank);
    coder(facts.writers)(facts.came)(facts.producers).check(facts.producers >= 0);
    coder(facts.missing)(facts.deaths).check(facts.missing >= 0 && facts.deaths >= 0);
  }
};

template <>
struct Fields<Moved> {
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

/// It was carried out.
struct Done {
  static constexpr ReplyKind kind = ReplyKind::done;
  static void visit(auto&, auto&) {}
};

/// Not now: ask again when a notice has come.
struct Wait {
  static constexpr ReplyKind kind = ReplyKind::waiting;
  std::string why{};
  static void visit(auto& coder, auto& wait) { coder.explanation(wait.why); }
};

/// The variable was deleted: ask its keeper what there is of it, and then anew.
struct Stale {
  static constexpr ReplyKind kind = ReplyKind::stale;
  static void visit(auto&, auto&) {}
};

/// Objects of other servers meet the box: ask all its owners to find them.
struct AskOthers {
  static constexpr ReplyKind kind = ReplyKind::spread;
  static void visit(auto&, auto&) {}
};

/// Who the server is. The first one names the contacts of all, its own included.
struct Welcome {
  static constexpr ReplyKind kind = ReplyKind::done;
  std::int64_t message_bytes = 0;
  std::int64_t data_bytes = 0;  ///< the largest object that goes inside a message; 0: none does
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

/// What a variable is.
struct Declared {
  static constexpr ReplyKind kind = ReplyKind::done;
  Facts facts{};
  static void visit(auto& coder, auto& declared) { coder(declared.facts); }
};

/// The same, and the box around what was put to it at its keeper.
struct Described {
  static constexpr ReplyKind kind = ReplyKind::done;
  Facts facts{};
  std::optional<Box> bounds{};
  static void visit(auto& coder, auto& described) {
    coder(described.facts);
    visit_optional_bounds(coder, described.bounds);
    coder.check(!described.bounds || described.bounds->rank == described.facts.first.rank);
  }
};

struct BoundsHere {
  static constexpr ReplyKind kind = ReplyKind::done;
  std::optional<Box> bounds{};
  static void visit(auto& coder, auto& here) { visit_optional_bounds(coder, here.bounds); }
};

/// It was carried out; and the homes of these objects are to be told that they are orphans.
struct DoneWithOrphans {
  static constexpr ReplyKind kind = ReplyKind::done;
  std::vector<Orphan> orphans{};
  static void visit(auto& coder, auto& done) { coder.list(done.orphans, orphans_max); }
};

/// Room for an object.
struct RoomHere {
  static constexpr ReplyKind kind = ReplyKind::done;
  std::uint64_t object = 0;
  Range range{};
  std::vector<Orphan> orphans{};
  static void visit(auto& coder, auto& room) {
    coder(room.object)(room.range).check(room.range.segment >= 0);
    coder.list(room.orphans, orphans_max);
  }
};

/// The order of a commit, or one that is below that of the commit to come.
struct Ordered {
  static constexpr ReplyKind kind = ReplyKind::done;
  std::uint64_t order = 0;
  std::vector<Orphan> orphans{};
  static void visit(auto& coder, auto& ordered) {
    coder(ordered.order).check(ordered.order <= order_max);
    coder.list(ordered.orphans, orphans_max);
  }
};

/// Objects that meet a box, as many as the message has room for.
struct Objects {
  static constexpr ReplyKind kind = ReplyKind::objects;
  Found found{};
  std::uint32_t left = 0;  ///< objects that come after these
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

struct VersionThere {
  static constexpr ReplyKind kind = ReplyKind::done;
  std::int64_t version = 0;
  static void visit(auto& coder, auto& there) { coder(there.version); }
};

/// What became of each object that was asked for, in the same order. The lease keeps those that are
/// here.
struct LeaseHere {
  static constexpr ReplyKind kind = ReplyKind::done;
  std::uint64_t lease = 0;
  std::vector<Leased> objects{};
  static void visit(auto& coder, auto& here) { coder(here.lease).list(here.objects); }
};

/// Where an object lies in memory; nowhere (segment -1) if none was asked for.
struct Recalled {
  static constexpr ReplyKind kind = ReplyKind::done;
  Range range{};
  static void visit(auto& coder, auto& recalled) { coder(recalled.range); }
};

struct Removed {
  static constexpr ReplyKind kind = ReplyKind::done;
  std::uint64_t number = 0;  ///< of the deletion, as the keeper counts them
  bool any = false;          ///< there was something of the variable
  std::vector<Orphan> orphans{};
  static void visit(auto& coder, auto& removed) {
    coder(removed.number).check(removed.number > 0 && removed.number <= deletion_max);
    coder(removed.any).list(removed.orphans, orphans_max);
  }
};

/// Variables in the order of their names, as much as the message has room for; none at the end.
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

/// Who I am.
struct Hello {
  static constexpr RequestKind kind = RequestKind::hello;
  using Reply = std::variant<Welcome, Wait>;
  std::uint32_t version = staging_version;
  std::string name{};  ///< what the client calls itself; a server makes it fit to be shown
  ClientId client{};   ///< whatever connections it has; a half of 0: its connection is its identity
  static void visit(auto& coder, auto& hello) { coder(hello.version)(hello.name)(hello.client); }
};

/// To the first server, by another one: I am one of the group.
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

/// The domain of a variable, and how many will put to it.
struct Define {
  static constexpr RequestKind kind = RequestKind::define;
  using Reply = Done;
  PutRequest domain{};
  int writers = 0;  ///< 0: unknown
  static void visit(auto& coder, auto& define) { coder(define.domain)(define.writers); }
};

/// I shall put to a variable.
struct Declare {
  static constexpr RequestKind kind = RequestKind::declare;
  using Reply = Declared;
  PutRequest object{};
  static void visit(auto& coder, auto& declare) { coder(declare.object); }
};

struct Describe {
  static constexpr RequestKind kind = RequestKind::describe;
  using Reply = std::variant<Described, Wait>;
  std::string variable{};
  bool watch = false;  ///< send a notice when it changes
  static void visit(auto& coder, auto& describe) {
    coder(describe.variable).require([&] { return check_name(describe.variable); });
    coder(describe.watch);
  }
};

/// The box around what was put to a variable at this server.
struct Bounds {
  static constexpr RequestKind kind = RequestKind::bounds;
  using Reply = BoundsHere;
  std::string variable{};
  static void visit(auto& coder, auto& bounds) {
    coder(bounds.variable).require([&] { return check_name(bounds.variable); });
  }
};

/// An object and its data, visible with the reply.
struct Put {
  static constexpr RequestKind kind = RequestKind::put;
  using Reply = std::variant<DoneWithOrphans, Wait, Stale>;
  PutRequest object{};
  Payload data{};
  Checksum checksum{};
  static void visit(auto& coder, auto& put) { coder(put.object)(put.data)(put.checksum); }
};

/// Room for an object, and how hard to try.
struct Begin {
  static constexpr RequestKind kind = RequestKind::begin;
  using Reply = std::variant<RoomHere, Wait, Stale>;
  PutRequest object{};
  Effort effort = Effort::all;
  bool ready = true;          ///< the object is written at once; else TakePages comes before
  std::vector<int> owners{};  ///< of the box, if the server is none of them
  Ticket ticket = 0;
  static void visit(auto& coder, auto& begin) {
    coder(begin.object)(begin.effort);
    coder.check(begin.effort >= Effort::guest && begin.effort <= Effort::all);
    coder(begin.ready).list(begin.owners, servers_max)(begin.ticket);
  }
};

/// An object that was begun without being ready is about to be written: the server takes the pages
/// of its memory.
struct TakePages {
  static constexpr RequestKind kind = RequestKind::take_pages;
  using Reply = Done;
  std::uint64_t object = 0;
  static void visit(auto& coder, auto& take) { coder(take.object); }
};

/// An object is whole.
struct Commit {
  static constexpr RequestKind kind = RequestKind::commit;
  using Reply = Ordered;
  std::uint64_t object = 0;
  std::uint64_t order_before = 0;  ///< the highest order that a server of the box knows
  std::string variable{};          ///< for statistics, as what follows
  std::int64_t bytes = 0;
  std::string path{};
  Checksum checksum{};
  static void visit(auto& coder, auto& commit) {
    coder(commit.object)(commit.order_before).check(commit.order_before <= order_max);
    coder(commit.variable)(commit.bytes).check(commit.bytes >= 0);
    coder(commit.path)(commit.checksum);
  }
};

/// An object that was begun will not come.
struct Abort {
  static constexpr RequestKind kind = RequestKind::abort;
  using Reply = Done;
  std::uint64_t object = 0;
  static void visit(auto& coder, auto& abort) { coder(abort.object); }
};

/// To the other owners of a box: this object is being put elsewhere.
struct Index {
  static constexpr RequestKind kind = RequestKind::index;
  using Reply = std::variant<Ordered, Stale>;
  PutRequest object{};
  ObjectAt at{};
  bool guest = false;  ///< its home owns no part of the box
  static void visit(auto& coder, auto& index) { coder(index.object)(index.at)(index.guest); }
};

/// What an index entry names.
struct Entry {
  std::string variable{};
  std::int64_t version = 0;
  ObjectAt at{};
  static void visit(auto& coder, auto& entry) {
    coder(entry.variable).require([&] { return check_name(entry.variable); });
    coder(entry.version)(entry.at);
  }
};

/// The object of an index entry will not come.
struct Unindex {
  static constexpr RequestKind kind = RequestKind::unindex;
  using Reply = Done;
  Entry entry{};
  static void visit(auto& coder, auto& unindex) { coder(unindex.entry); }
};

/// The object of an index entry was committed, with that order.
struct Confirm {
  static constexpr RequestKind kind = RequestKind::confirm;
  using Reply = DoneWithOrphans;
  Entry entry{};
  std::uint64_t order = 0;
  static void visit(auto& coder, auto& confirm) {
    coder(confirm.entry)(confirm.order).check(confirm.order <= order_max);
  }
};

/// The box's data if they are few, else where they lie; or that others must be asked, too.
struct Get {
  static constexpr RequestKind kind = RequestKind::get;
  using Reply = std::variant<InlineData, Objects, Wait, AskOthers, Stale>;
  GetRequest get{};
  Ticket ticket = 0;
  static void visit(auto& coder, auto& request) { coder(request.get)(request.ticket); }
};

/// The version that a get would return now.
struct AskVersion {
  static constexpr RequestKind kind = RequestKind::wait;
  using Reply = std::variant<VersionThere, Wait, AskOthers, Stale>;
  GetRequest get{};
  Ticket ticket = 0;
  static void visit(auto& coder, auto& request) { coder(request.get)(request.ticket); }
};

/// The objects that meet the box, those of other servers included.
struct Find {
  static constexpr RequestKind kind = RequestKind::find;
  using Reply = std::variant<Objects, Wait, Stale>;
  GetRequest get{};
  bool watch = false;  ///< send a notice when the variable changes
  Ticket ticket = 0;
  static void visit(auto& coder, auto& find) { coder(find.get)(find.watch)(find.ticket); }
};

/// What became of objects of this server that another one's index named.
struct Lease {
  static constexpr RequestKind kind = RequestKind::lease;
  using Reply = LeaseHere;
  std::string variable{};
  std::int64_t version = 0;
  bool watch = false;
  std::vector<std::uint64_t> objects{};
  Ticket ticket = 0;
  static void visit(auto& coder, auto& lease) {
    coder(lease.variable).require([&] { return check_name(lease.variable); });
    coder(lease.version)(lease.watch).list(lease.objects)(lease.ticket);
  }
};

/// Objects of a get or find, from number `first` on, that the reply had no room for.
struct More {
  static constexpr RequestKind kind = RequestKind::more;
  using Reply = Objects;
  std::uint64_t lease = 0;
  std::uint64_t first = 0;
  static void visit(auto& coder, auto& more) { coder(more.lease)(more.first); }
};

/// An object of a lease that lies on disk is to be in memory. Object 0: none has to be any more.
struct Recall {
  static constexpr RequestKind kind = RequestKind::recall;
  using Reply = std::variant<Recalled, Wait>;
  std::uint64_t lease = 0;
  std::uint64_t object = 0;
  static void visit(auto& coder, auto& recall) { coder(recall.lease)(recall.object); }
};

/// What a get, find or lease returned is read no more.
struct Release {
  static constexpr RequestKind kind = RequestKind::release;
  using Reply = Done;
  std::uint64_t lease = 0;
  std::string variable{};  ///< for statistics, as what follows
  bool counts = false;     ///< it ends a get that no other server counts
  std::int64_t bytes = 0;
  std::string path{};
  static void visit(auto& coder, auto& release) {
    coder(release.lease)(release.variable)(release.counts)(release.bytes);
    coder.check(release.bytes >= 0)(release.path);
  }
};

/// The reply to what had this ticket did not come: what it granted is given back.
struct Undo {
  static constexpr RequestKind kind = RequestKind::undo;
  using Reply = Done;
  Ticket ticket = 0;
  static void visit(auto& coder, auto& undo) { coder(undo.ticket); }
};

/// To the home of objects that a server has named as orphans.
struct DropOrphans {
  static constexpr RequestKind kind = RequestKind::drop_orphans;
  using Reply = Done;
  int owner = 0;  ///< the server that knows them no longer
  std::vector<Orphan> orphans{};
  static void visit(auto& coder, auto& drop) {
    coder(drop.owner).check(drop.owner >= 0 && drop.owner < servers_max);
    coder.list(drop.orphans, orphans_max);
  }
};

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

/// Takes a variable away: first of its keeper, which numbers the deletion, then of all others.
struct Remove {
  static constexpr RequestKind kind = RequestKind::remove;
  using Reply = Removed;
  std::string variable{};
  std::uint64_t number = 0;  ///< 0: the keeper is asked
  static void visit(auto& coder, auto& remove) {
    coder(remove.variable).require([&] { return check_name(remove.variable); });
    coder(remove.number).check(remove.number <= deletion_max);
  }
};

/// What there is behind a version of a variable.
struct List {
  static constexpr RequestKind kind = RequestKind::list;
  using Reply = Listed;
  std::string after{};  ///< empty: from the first variable on
  std::int64_t after_version = INT64_MAX;
  static void visit(auto& coder, auto& list) {
    coder(list.after).require([&] {
      return list.after.empty() ? Status{} : check_name(list.after);
    });
    coder(list.after_version);
  }
};

/// What the server is, and holds.
struct AskStatus {
  static constexpr RequestKind kind = RequestKind::status;
  using Reply = ServerStatus;
  static void visit(auto&, auto&) {}
};

using Requests =
    std::tuple<Hello, Join, Define, Declare, Describe, Bounds, Put, Begin, TakePages, Commit, Abort,
               Index, Unindex, Confirm, Get, AskVersion, Find, Lease, More, Recall, Release, Undo,
               DropOrphans, Discard, Remove, List, AskStatus>;

}  // namespace protocol

}  // namespace tranship::staging
