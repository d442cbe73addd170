// The messages between clients and servers of the staging service. Each message is a struct that
// lists its fields once, with the checks on them: requests here, and replies in replies.hpp.
// docs/internals/staging-protocol.md has the table.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "staging/protocol/replies.hpp"

namespace tranship::staging {

namespace protocol {

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

/// Begins to write a step, with its other writers. This and all other requests about steps and
/// attributes, but SettleStep, go to the first server.
struct BeginStep {
  static constexpr RequestKind kind = RequestKind::begin_step;
  using Reply = std::variant<StepBegun, Wait>;
  std::int64_t number = 0;
  int writers = 1;
  static void visit(auto& coder, auto& begin) { coder(begin.number)(begin.writers); }
};

/// Adds what did not fit into EndStep.
struct AddToStep {
  static constexpr RequestKind kind = RequestKind::add_to_step;
  using Reply = Done;
  StepId id = 0;
  StepContents contents{};
  static void visit(auto& coder, auto& add) {
    coder(add.id).list(add.contents.variables).list(add.contents.attributes);
  }
};

/// Ends the client's part of a step. Repeated, it has no other effect, and the same reply.
struct EndStep {
  static constexpr RequestKind kind = RequestKind::end_step;
  using Reply = StepStateFound;
  StepId id = 0;
  StepContents contents{};
  static void visit(auto& coder, auto& end) {
    coder(end.id).list(end.contents.variables).list(end.contents.attributes);
  }
};

/// Breaks a step within which the client is. Id 0: the one of that number, which it may have begun
/// without having got the reply.
struct GiveUpStep {
  static constexpr RequestKind kind = RequestKind::give_up_step;
  using Reply = StepStateFound;
  StepId id = 0;
  std::string why{};
  std::int64_t number = 0;
  static void visit(auto& coder, auto& give_up) {
    coder(give_up.id).explanation(give_up.why)(give_up.number);
  }
};

/// Tells a server that a step has ended, or was freed: what it withholds of it becomes visible, or
/// goes, or the versions that it has shown are discarded. Sent to all servers but the first.
struct SettleStep {
  static constexpr RequestKind kind = RequestKind::settle_step;
  using Reply = DoneWithOrphans;
  StepId id = 0;
  StepState state = StepState::broken;
  static void visit(auto& coder, auto& settle) {
    coder(settle.id).check(settle.id > 0 && settle.id <= step_max)(settle.state);
    coder.check(settle.state >= StepState::whole && settle.state <= StepState::freed);
  }
};

/// Reports that all servers know the state of a step, or that the client could not tell them. Id 0:
/// the client did not receive a reply that may have named steps to settle.
struct StepSettled {
  static constexpr RequestKind kind = RequestKind::step_settled;
  using Reply = Done;
  StepId id = 0;
  StepState state = StepState::broken;
  bool done = false;        ///< Whether all do that the client has reached.
  std::vector<int> lost{};  ///< Servers to which it has no connection any more.
  static void visit(auto& coder, auto& settled) {
    coder(settled.id)(settled.state)(settled.done).list(settled.lost, servers_max);
  }
};

/// Asks for the state of a step of which a server withholds something.
struct QueryStep {
  static constexpr RequestKind kind = RequestKind::query_step;
  using Reply = StepStateFound;
  StepId id = 0;
  static void visit(auto& coder, auto& query) { coder(query.id); }
};

/// Asks for a whole step.
struct FindStep {
  static constexpr RequestKind kind = RequestKind::find_step;
  using Reply = StepFound;
  StepQuery query{};
  bool watch = false;  ///< Whether a notice is sent when a step ends.
  static void visit(auto& coder, auto& find) {
    coder(find.query.choice)
        .check(find.query.choice >= VersionChoice::exact &&
               find.query.choice <= VersionChoice::latest);
    coder(find.query.number)(find.watch);
  }
};

/// Asks for variables and attributes of a step that did not fit into a reply, from these on.
struct MoreOfStep {
  static constexpr RequestKind kind = RequestKind::more_of_step;
  using Reply = StepPage;
  StepId id = 0;
  std::uint32_t first_variable = 0;
  std::uint32_t first_attribute = 0;
  static void visit(auto& coder, auto& more) {
    coder(more.id)(more.first_variable)(more.first_attribute);
  }
};

/// Frees a whole step.
struct FreeStep {
  static constexpr RequestKind kind = RequestKind::free_step;
  using Reply = StepStateFound;
  StepId id = 0;
  static void visit(auto& coder, auto& free) { coder(free.id); }
};

/// Says how long steps are kept.
struct DefineQueue {
  static constexpr RequestKind kind = RequestKind::define_queue;
  using Reply = Done;
  StepQueue queue{};
  static void visit(auto& coder, auto& define) { coder(define.queue); }
};

/// Registers the client as a member of a group of readers: steps above `after` are kept until each
/// group has released them.
struct JoinReaders {
  static constexpr RequestKind kind = RequestKind::join_readers;
  using Reply = StepsFreed;
  std::string group{};
  Sharing sharing = Sharing::demand;
  std::int64_t after = 0;  ///< Of the group, for its first member.
  static void visit(auto& coder, auto& join) {
    coder(join.group).require([&] { return check_name(join.group); })(join.sharing);
    coder.check(join.sharing >= Sharing::demand && join.sharing <= Sharing::round_robin);
    coder(join.after);
  }
};

/// Ends the membership. What the client had taken, and not released, goes to another member.
struct LeaveReaders {
  static constexpr RequestKind kind = RequestKind::leave_readers;
  using Reply = StepsFreed;
  std::string group{};
  static void visit(auto& coder, auto& leave) {
    coder(leave.group).require([&] { return check_name(leave.group); });
  }
};

/// Asks for the next step of a group, which the client holds until it releases it.
struct TakeStep {
  static constexpr RequestKind kind = RequestKind::take_step;
  using Reply = StepFound;
  std::string group{};
  StepId received = 0;     ///< The last one that it has got; another one is given again.
  std::int64_t known = 0;  ///< The highest broken step that the client knows to be passed by.
  bool watch = false;      ///< As FindStep::watch.
  static void visit(auto& coder, auto& take) {
    coder(take.group).require([&] { return check_name(take.group); })(take.received);
    coder(take.known)(take.watch);
  }
};

/// Releases a step that the client has taken.
struct ReleaseStep {
  static constexpr RequestKind kind = RequestKind::release_step;
  using Reply = StepStateFound;
  std::string group{};
  StepId id = 0;
  static void visit(auto& coder, auto& release) {
    coder(release.group).require([&] { return check_name(release.group); })(release.id);
  }
};

/// Sets attributes of variables, or of the run.
struct SetAttributes {
  static constexpr RequestKind kind = RequestKind::set_attributes;
  using Reply = Done;
  std::vector<Attribute> attributes{};
  static void visit(auto& coder, auto& set) { coder.list(set.attributes); }
};

/// Asks for the attributes of a variable, or of the run, whose keys are above `after`.
struct GetAttributes {
  static constexpr RequestKind kind = RequestKind::get_attributes;
  using Reply = AttributesFound;
  std::string variable{};  ///< Empty: of the run.
  std::string after{};
  static void visit(auto& coder, auto& get) {
    coder(get.variable).require([&] {
      return get.variable.empty() ? Status{} : check_name(get.variable);
    });
    coder(get.after).require([&] { return get.after.empty() ? Status{} : check_key(get.after); });
  }
};

/// Several requests, which the server answers in their order, each as if it had come alone.
struct Batch {
  static constexpr RequestKind kind = RequestKind::batch;
  using Reply = BatchReplies;
  std::vector<Payload> requests{};  ///< Whole messages: no Hello, no Join, and no Batch.
  static void visit(auto& coder, auto& batch) { coder.list(batch.requests); }
};

/// Reduces a part of an object of a lease, which has been in memory since the grant or the last
/// Recall.
struct Reduce {
  static constexpr RequestKind kind = RequestKind::reduce;
  using Reply = ReducedPart;
  std::uint64_t lease = 0;
  std::uint64_t object = 0;
  Box part{};
  std::string type{};  ///< Of the elements.
  Reduction reduction{};
  static void visit(auto& coder, auto& reduce) {
    coder(reduce.lease)(reduce.object)(reduce.part)(reduce.type)(reduce.reduction);
  }
};

/// Begins an object that stays in the client's own memory, in place of Begin.
struct Offer {
  static constexpr RequestKind kind = RequestKind::offer;
  using Reply = std::variant<OfferBegun, Stale>;
  PutRequest object{};
  OfferedMemory memory{};  ///< The server sets the producer.
  RequestId request_id = 0;
  static void visit(auto& coder, auto& offer) {
    coder(offer.object)(offer.memory)(offer.request_id);
  }
};

/// Asks which of the client's offers have ended. The client gets a notice when one of the others
/// ends.
struct EndOffers {
  static constexpr RequestKind kind = RequestKind::end_offers;
  using Reply = OffersLeft;
  std::vector<std::uint64_t> objects{};
  bool withdraw = false;  ///< Whether they are withdrawn: no further get finds them.
  static void visit(auto& coder, auto& end) { coder.list(end.objects, offers_max)(end.withdraw); }
};

/// Removes the index entry of an offer that was withdrawn.
struct WithdrawEntry {
  static constexpr RequestKind kind = RequestKind::withdraw_entry;
  using Reply = Done;
  IndexEntryId entry{};
  static void visit(auto& coder, auto& withdraw) { coder(withdraw.entry); }
};

/// Asks where an object of a lease lies that its producer offers.
struct QueryOffer {
  static constexpr RequestKind kind = RequestKind::query_offer;
  using Reply = OfferFound;
  std::uint64_t lease = 0;
  std::uint64_t object = 0;
  static void visit(auto& coder, auto& query) { coder(query.lease)(query.object); }
};

using Requests =
    std::tuple<Hello, Join, Define, Declare, Describe, Bounds, Put, Begin, TakePages, Commit, Abort,
               Index, Unindex, Confirm, Get, QueryVersion, Find, Lease, More, Recall, Release, Undo,
               DropOrphans, Discard, DiscardToo, Finish, PutEmpty, FindExtent, Remove, List,
               QueryStatus, BeginStep, AddToStep, EndStep, GiveUpStep, SettleStep, StepSettled,
               QueryStep, FindStep, MoreOfStep, FreeStep, SetAttributes, GetAttributes, DefineQueue,
               JoinReaders, LeaveReaders, TakeStep, ReleaseStep, Batch, Reduce, Offer, EndOffers,
               WithdrawEntry, QueryOffer>;

}  // namespace protocol

}  // namespace tranship::staging
