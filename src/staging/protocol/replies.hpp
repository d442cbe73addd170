// The kinds of messages between clients and servers of the staging service, and the replies of
// servers. protocol.hpp has the requests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "staging/protocol/values.hpp"

namespace tranship::staging {

constexpr std::uint32_t staging_version = 15;

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
  begin_step,
  add_to_step,
  end_step,
  give_up_step,
  settle_step,
  step_settled,
  query_step,
  find_step,
  more_of_step,
  free_step,
  set_attributes,
  get_attributes,
  define_queue,
  join_readers,
  leave_readers,
  take_step,
  release_step,
  batch,
  reduce,
  offer,
  end_offers,
  withdraw_entry,
  query_offer,
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

/// Returns how many requests a batch may have: each has room for a reply of about
/// message_bytes_least in a message of `message_bytes`.
constexpr std::size_t batch_most(std::int64_t message_bytes) {
  return static_cast<std::size_t>(std::max<std::int64_t>(message_bytes / message_bytes_least, 1));
}

/// Returns the largest payload that is sent inside a message of at most `message_bytes_max` bytes.
/// A larger object is copied by the client's engine, which is as fast from there on.
constexpr std::int64_t inline_bytes(std::int64_t message_bytes_max) {
  return std::min<std::int64_t>(64 * 1024, message_bytes_max / 4);
}

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
  std::uint64_t step = 0;    ///< As FoundObjects::step.
  static void visit(auto& coder, auto& wait) {
    coder.explanation(wait.why);
    coder(wait.ending).check(wait.ending >= Ending::none && wait.ending <= Ending::died);
    coder(wait.gap)(wait.version)(wait.step).check(wait.step <= step_max);
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
    coder(extent.step).check(extent.step <= step_max);
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
    coder(found.step).check(found.step <= step_max);
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
  std::uint64_t step = 0;  ///< As FoundObjects::step.
  static void visit(auto& coder, auto& inside) {
    coder(inside.version)(inside.type)(inside.element_bytes);
    coder.check(is_element(inside.type, inside.element_bytes))(inside.data);
    coder(inside.step).check(inside.step <= step_max);
  }
};

struct VersionFound {
  static constexpr ReplyKind kind = ReplyKind::done;
  std::int64_t version = 0;
  std::uint64_t step = 0;  ///< As FoundObjects::step.
  static void visit(auto& coder, auto& there) {
    coder(there.version)(there.step).check(there.step <= step_max);
  }
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
  static void visit(auto& coder, auto& recalled) {
    coder(recalled.range).check(recalled.range.segment >= -1);
  }
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

/// A step that the client may write.
struct StepBegun {
  static constexpr ReplyKind kind = ReplyKind::done;
  StepId id = 0;
  bool dropped = false;                    ///< Whether what is put within it has no effect.
  std::vector<UnsettledStep> unsettled{};  ///< Steps that the client settles (SettleStep).
  static void visit(auto& coder, auto& begun) {
    coder(begun.id).check(begun.id > 0 && begun.id <= step_max)(begun.dropped);
    coder.list(begun.unsettled, unsettled_max);
  }
};

/// The request was carried out; it may have freed steps.
struct StepsFreed {
  static constexpr ReplyKind kind = ReplyKind::done;
  std::vector<UnsettledStep> unsettled{};  ///< As StepBegun::unsettled.
  static void visit(auto& coder, auto& freed) { coder.list(freed.unsettled, unsettled_max); }
};

/// The state of a step.
struct StepStateFound {
  static constexpr ReplyKind kind = ReplyKind::done;
  StepState state = StepState::broken;
  std::string why{};                       ///< Why it is broken.
  bool settles = false;                    ///< Whether the client settles it.
  std::vector<UnsettledStep> unsettled{};  ///< Others, as StepBegun::unsettled.
  static void visit(auto& coder, auto& found) {
    coder(found.state).check(found.state >= StepState::open && found.state <= StepState::freed);
    coder.explanation(found.why)(found.settles).list(found.unsettled, unsettled_max);
  }
};

/// What a step has, as much as fits into a message. MoreOfStep fetches what is left.
struct StepPage {
  static constexpr ReplyKind kind = ReplyKind::done;
  std::vector<StepVariable> variables{};
  std::vector<Attribute> attributes{};
  std::uint32_t variables_left = 0;
  std::uint32_t attributes_left = 0;
  static void visit(auto& coder, auto& page) {
    coder.list(page.variables).list(page.attributes);
    coder(page.variables_left)(page.attributes_left);
    coder.check(page.variables_left <= list_max && page.attributes_left <= list_max);
  }
};

/// A whole step, or why there is none yet.
struct StepFound {
  static constexpr ReplyKind kind = ReplyKind::done;
  StepId id = 0;            ///< 0: there is none yet.
  std::int64_t number = 0;  ///< Id 0: that of the step that FindStep would wait for, or as asked.
  bool settled = false;     ///< Whether all servers know that it is whole.
  std::string why{};        ///< Why there is none yet.
  Ending ending = Ending::none;
  std::vector<BrokenStep> broken{};        ///< Steps that are passed by.
  std::vector<UnsettledStep> unsettled{};  ///< As StepBegun::unsettled.
  StepPage page{};
  static void visit(auto& coder, auto& found) {
    coder(found.id).check(found.id <= step_max)(found.number)(found.settled);
    coder.explanation(found.why);
    coder(found.ending).check(found.ending >= Ending::none && found.ending <= Ending::died);
    coder.list(found.broken).list(found.unsettled, unsettled_max)(found.page);
  }
};

/// Attributes of a variable or of the run, as many as fit into a message.
struct AttributesFound {
  static constexpr ReplyKind kind = ReplyKind::done;
  std::vector<Attribute> attributes{};
  bool more = false;  ///< Whether others did not fit.
  static void visit(auto& coder, auto& found) { coder.list(found.attributes)(found.more); }
};

/// The replies to the requests of a batch, in their order.
struct BatchReplies {
  static constexpr ReplyKind kind = ReplyKind::done;
  /// The reply to one request: a whole message, or an error.
  struct One {
    std::optional<Error> error{};
    Payload reply{};
    static void visit(auto& coder, auto& one) { coder(one.error)(one.reply); }
  };
  std::vector<One> replies{};
  static void visit(auto& coder, auto& batch) { coder.list(batch.replies); }
};

struct ReducedPart {
  static constexpr ReplyKind kind = ReplyKind::done;
  Reduced result{};
  static void visit(auto& coder, auto& part) { coder(part.result); }
};

/// An offer was begun: its object is visible from its commit on.
struct OfferBegun {
  static constexpr ReplyKind kind = ReplyKind::done;
  std::uint64_t object = 0;
  std::vector<Orphan> orphans{};
  static void visit(auto& coder, auto& begun) {
    coder(begun.object).list(begun.orphans, orphans_max);
  }
};

/// Which of the offers that a request names have not ended.
struct OffersLeft {
  static constexpr ReplyKind kind = ReplyKind::done;
  std::vector<std::uint64_t> objects{};
  std::string why{};  ///< Why the first of them has not.
  static void visit(auto& coder, auto& left) {
    coder.list(left.objects, offers_max).explanation(left.why);
  }
};

/// Where an object lies that its producer offers.
struct OfferFound {
  static constexpr ReplyKind kind = ReplyKind::done;
  OfferedMemory memory{};
  static void visit(auto& coder, auto& found) { coder(found.memory); }
};

}  // namespace protocol

}  // namespace tranship::staging
