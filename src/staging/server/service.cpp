#include "staging/server/service.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/crc32c.hpp"
#include "base/text.hpp"
#include "channels/host/copy.hpp"

namespace tranship::staging {
namespace {

Error unreadable() { return {ErrorCode::invalid_argument, "a message that cannot be read"}; }

/// Names that one client may wait for; a client that gets no notice looks again by itself.
constexpr std::size_t watches_max = 256;
/// Returns a client's name, made fit to be shown.
std::string label_of(const std::string& text) {
  const bool fits = text.size() <= label_bytes_max && is_plain_text(text);
  return fits ? text : in_quotes(text, label_bytes_max / 4);
}

/// Returns a path as a client names it; "others" for a text that cannot be shown.
std::string_view path_of(const std::string& text) {
  return is_plain_text(text) ? std::string_view(text) : std::string_view("others");
}

/// Returns whether another server holds an object, and knows more of it.
bool is_elsewhere(const StoredObject& object) { return object.order == 0; }

/// Returns objects of a long answer from `first` on, as many as fit into a reply of `bytes` bytes.
protocol::Objects page_of(const FoundObjects& found, std::size_t first, std::size_t bytes) {
  protocol::Objects page{
      {found.version, found.type, found.element_bytes, found.lease, {}, found.step}, 0};
  const std::size_t taken = sizeof(ReplyKind) + encoded_bytes(page);
  const std::size_t left = found.objects.size() - first;
  const std::size_t room = bytes > taken ? bytes - taken : 0;
  const std::size_t each = left > 0 ? encoded_bytes(found.objects[first]) : 1;
  const std::size_t count = std::min(left, room / each);
  const auto begin = found.objects.begin() + static_cast<std::ptrdiff_t>(first);
  page.found.objects.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
  page.left = static_cast<std::uint32_t>(left - count);
  return page;
}

Status check_version(std::uint32_t version) {
  if (version == staging_version) return {};
  return Error{ErrorCode::unsupported,
               "this server speaks version " + std::to_string(staging_version) +
                   " of the staging protocol, and the other process version " +
                   std::to_string(version),
               "install the same tranship"};
}

}  // namespace

Service::Service(Options options)
    : options_(std::move(options)),
      store_(store_options()),
      registry_(options_.cell_bytes, options_.store.limits),
      steps_(options_.store.limits, options_.store.versions_max),
      attributes_(options_.store.limits),
      distribution_(options_.servers),
      contacts_(static_cast<std::size_t>(options_.servers)),
      waiting_(watches_max) {
  contacts_[static_cast<std::size_t>(options_.store.server)] = options_.contact;
}

Error Service::closing() { return {ErrorCode::closed, "the staging server is closing"}; }

/// Returns the options of the store. On the first server, a step of which a version was discarded
/// is forgotten.
ObjectStore::Options Service::store_options() {
  ObjectStore::Options options = options_.store;
  if (!is_first()) return options;
  options.on_discard = [this](const std::string& variable, std::int64_t version) {
    steps_.discarded(variable, version);
    if (options_.store.on_discard) options_.store.on_discard(variable, version);
  };
  return options;
}

Result<std::size_t> Service::answer(ClientConnection from, std::span<const std::byte> request,
                                    std::span<std::byte> reply) {
  auto length = answer_one(from, request, reply);
  conclude();
  return length;
}

Result<std::size_t> Service::answer_one(ClientConnection from, std::span<const std::byte> request,
                                        std::span<std::byte> reply) {
  const RequestKind kind = kind_of(request);
  const bool stranger = kind != RequestKind::hello && kind != RequestKind::join;
  if (stranger && !clients_.contains(from)) {
    return Error{ErrorCode::invalid_argument, "say hello first"};
  }
  const auto answer_to = [&]<typename Request>(const Request& one) {
    return on(from, one, ReplyTo<Request>(reply));
  };
  return read_request<Answer>(request, answer_to);
}

/// Each reply has an equal part of the room that is left. Clients may be lost, and others answered,
/// while the elements of a put are copied.
Result<std::size_t> Service::on(ClientConnection from, const protocol::Batch& request,
                                ReplyTo<protocol::Batch> reply) {
  const std::size_t count = request.requests.size();
  if (count > batch_most(std::ssize(reply.room()))) return unreadable();
  protocol::BatchReplies batch;
  const std::size_t each = encoded_bytes(protocol::BatchReplies::One{});
  const auto room = std::make_unique_for_overwrite<std::byte[]>(reply.bytes());
  std::size_t left = reply.bytes() - sizeof(ReplyKind) - encoded_bytes(batch);
  std::byte* next = room.get();
  for (std::size_t k = 0; k < count; ++k) {
    const std::span<const std::byte> one = request.requests[k].bytes;
    const RequestKind kind = kind_of(one);
    const bool apart =
        kind == RequestKind::batch || kind == RequestKind::hello || kind == RequestKind::join;
    const std::span<std::byte> part(next, left / (count - k) - each);
    const Answer length = apart ? Answer(unreadable()) : answer_one(from, one, part);
    protocol::BatchReplies::One& said = batch.replies.emplace_back();
    if (length) said.reply = payload_of(part.first(*length));
    if (!length) {
      const Error& error = length.error();
      said.error = {error.code, fabric::plain_text(error.message), fabric::plain_text(error.hint)};
    }
    left -= encoded_bytes(said);
    next += length ? *length : 0;
  }
  return reply(batch);
}

bool Service::complete() const {
  return std::none_of(contacts_.begin(), contacts_.end(),
                      [](const std::string& contact) { return contact.empty(); });
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::Hello& request,
                                ReplyTo<protocol::Hello> reply) {
  if (Status status = check_version(request.version); !status) return status.error();
  if (draining_) return closing();
  if (lost_.contains(from)) return Error{ErrorCode::closed, "this connection was lost"};
  // A client without an identity gets one from its connection: no random identity has a zero half.
  ClientId id = request.client;
  if (id.high == 0 || id.low == 0) id = {0, from};
  if (const auto known = clients_.find(from); known != clients_.end()) id = known->second.id;
  const int rank = options_.store.server;
  if (rank == 0 && !complete()) {
    waiting_for_servers_.insert(from);
    const auto missing = std::count(contacts_.begin(), contacts_.end(), std::string());
    return reply(protocol::Wait{std::to_string(missing) + " of " +
                                std::to_string(options_.servers) +
                                " servers have not started yet"});
  }
  const std::int64_t limit = options_.store.limits.clients;
  if (!clients_.contains(from) && std::ssize(clients_) >= limit) {
    return limit_reached("the clients of the server are", limit, "staging_clients");
  }
  clients_[from] = {label_of(request.name), id};
  registry_.came_back(id);
  steps_.came_back(id);
  protocol::Welcome welcome{.message_bytes = options_.message_bytes,
                            .data_bytes = data_bytes(),
                            .server = rank,
                            .servers = options_.servers,
                            .segments_ahead = segments_ahead_};
  if (rank == 0) welcome.contacts = contacts_;
  return reply(welcome);
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::Join& request,
                                ReplyTo<protocol::Join> reply) {
  if (Status status = check_version(request.version); !status) return status.error();
  const int rank = request.server;
  const int servers = request.servers;
  if (options_.store.server != 0 || servers != options_.servers || rank < 1 || rank >= servers) {
    return Error{ErrorCode::invalid_argument,
                 "server " + std::to_string(rank) + " of " + std::to_string(servers) +
                     " cannot join: this is server " + std::to_string(options_.store.server) +
                     " of " + std::to_string(options_.servers),
                 "start all with the same --servers, and the contact of the first"};
  }
  std::string& known = contacts_[static_cast<std::size_t>(rank)];
  if (!known.empty()) {
    return Error{ErrorCode::invalid_argument,
                 "server " + std::to_string(rank) + " has joined before",
                 "give each a rank of its own"};
  }
  known = request.contact;
  joined_[from] = rank;
  if (complete()) {
    for (const ClientConnection client : std::exchange(waiting_for_servers_, {}))
      options_.notify(client);
  }
  return reply(protocol::Done{});
}

Result<std::size_t> Service::on(ClientConnection, const protocol::Define& request,
                                ReplyTo<protocol::Define> reply) {
  const Status status = registry_.define(request.domain, request.writers);
  changes_.insert(request.domain.variable);
  return status ? reply(protocol::Done{}) : Answer(status.error());
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::Declare& request,
                                ReplyTo<protocol::Declare> reply) {
  if (draining_) return closing();
  const auto metadata = registry_.declare(clients_.at(from).id, request.object, request.empty);
  if (!metadata) return metadata.error();
  changes_.insert(request.object.variable);
  return reply(protocol::Declared{*metadata});
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::Describe& request,
                                ReplyTo<protocol::Describe> reply) {
  const auto metadata = registry_.metadata(request.variable);
  if (!metadata) {
    const std::string why = "nothing has been put to " + in_quotes(request.variable) + " yet";
    return wait(from, request.variable, why, reply);
  }
  if (request.watch) waiting_.add(request.variable, from);
  const auto awaited = registry_.awaited(request.variable, request.version, request.finished);
  return reply(protocol::Described{*metadata, bounds_of(request.variable), awaited.writers,
                                   awaited.fresh, awaited.never});
}

Result<std::size_t> Service::on(ClientConnection, const protocol::Bounds& request,
                                ReplyTo<protocol::Bounds> reply) const {
  return reply(protocol::BoundsReply{bounds_of(request.variable)});
}

/// Returns whether the variable was deleted since the client has asked its metadata server for it.
bool Service::is_stale(const std::string& variable, const Incarnation& incarnation) const {
  if (incarnation.stamp == 0) return false;
  if (!is_metadata_server(variable)) return store_.stale(variable, incarnation);
  const auto metadata = registry_.all().find(variable);
  return metadata == registry_.all().end() ||
         metadata->second.incarnation.number != incarnation.number;
}

/// Returns the box around the objects of a variable here.
std::optional<Box> Service::bounds_of(const std::string& variable) const {
  const auto info = store_.describe(variable);
  return info ? std::optional(info->bounds) : std::nullopt;
}

/// Checks a put on the first server, which knows the steps and their writers.
Status Service::check_step(ClientConnection from, StepId step) const {
  if (step == 0 || !is_first() || steps_.is_within(clients_.at(from).id, step)) return {};
  return Error{ErrorCode::not_found, "this client is not within the step, or the step is broken",
               "begin the next step"};
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::Put& put,
                                ReplyTo<protocol::Put> reply) {
  const PutRequest& request = put.object;
  const auto data = put.data.bytes;
  if (draining_) return closing();
  const std::int64_t bytes = std::ssize(data);
  if (request.box.points() * request.element_bytes != bytes || bytes > data_bytes()) {
    return unreadable();
  }
  if (Status status = check_step(from, request.step); !status) return status.error();
  if (is_stale(request.variable, request.incarnation)) return reply(protocol::Stale{});
  if (put.checksum.known != 0 && put.checksum.crc != crc32c(data)) {
    return Error{ErrorCode::io, "an object arrived with other bytes than those that were put"};
  }
  auto begun = store_.begin(from, request, {options_.servers > 1 ? Effort::discard : Effort::all});
  if (!begun) return begun.error();
  if (auto* waiting = std::get_if<Waiting>(&*begun)) return wait(from, "", waiting->why, reply);
  const GrantedRoom& object = std::get<GrantedRoom>(*begun);
  std::byte* const room = options_.address_of(object.range);
  copy_beside([&] { std::memcpy(room, data.data(), data.size()); });
  const auto order = store_.commit(from, object.object, 0, put.checksum);
  if (!order) return order.error();
  traffic_[request.variable].puts.add(1, bytes, message_path);
  take_part(from, request.variable, request.version, put.finishes, true);
  return reply(protocol::DoneWithOrphans{store_.take_orphans(orphans_max)});
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::Begin& request,
                                ReplyTo<protocol::Begin> reply) {
  const PutRequest& put = request.object;
  if (std::ssize(request.index_servers) > options_.servers) return unreadable();
  if (draining_) return closing();
  if (Status status = check_step(from, put.step); !status) return status.error();
  if (is_stale(put.variable, put.incarnation)) return reply(protocol::Stale{});
  auto begun = store_.begin(
      from, put, {request.effort, request.request_id, request.ready, request.index_servers});
  if (!begun) return begun.error();
  if (auto* waiting = std::get_if<Waiting>(&*begun)) return wait(from, "", waiting->why, reply);
  const GrantedRoom& object = std::get<GrantedRoom>(*begun);
  traffic_.try_emplace(put.variable);
  return reply(
      protocol::RoomGranted{object.object, object.range, store_.take_orphans(orphans_max)});
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::TakePages& request,
                                ReplyTo<protocol::TakePages> reply) {
  const Status status = store_.take_pages(from, request.object);
  return status ? reply(protocol::Done{}) : Answer(status.error());
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::Commit& request,
                                ReplyTo<protocol::Commit> reply) {
  const auto order = store_.commit(from, request.object, request.order_before, request.checksum);
  if (!order) return order.error();
  take_part(from, request.variable, request.version, request.finishes, true);
  if (const auto known = traffic_.find(request.variable); known != traffic_.end()) {
    known->second.puts.add(1, request.bytes, path_of(request.path));
  }
  return reply(protocol::Ordered{*order, store_.take_orphans(orphans_max)});
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::Abort& request,
                                ReplyTo<protocol::Abort> reply) {
  const Status status = store_.abort(from, request.object);
  return status ? reply(protocol::Done{}) : Answer(status.error());
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::Index& request,
                                ReplyTo<protocol::Index> reply) {
  const PutRequest& put = request.object;
  const int primary = request.id.primary;
  if (primary >= options_.servers || primary == options_.store.server) return unreadable();
  if (is_stale(put.variable, put.incarnation)) return reply(protocol::Stale{});
  const auto order = store_.index(from, put, {request.id, request.overflow});
  if (!order) return order.error();
  traffic_.try_emplace(put.variable);
  return reply(protocol::Ordered{*order, store_.take_orphans(orphans_max)});
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::Unindex& request,
                                ReplyTo<protocol::Unindex> reply) {
  const protocol::IndexEntryId& entry = request.entry;
  store_.unindex(from, entry.variable, entry.version, entry.id);
  return reply(protocol::Done{});
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::Confirm& request,
                                ReplyTo<protocol::Confirm> reply) {
  const protocol::IndexEntryId& entry = request.entry;
  store_.confirm(from, entry.variable, entry.version, entry.id, request.order);
  return reply(protocol::DoneWithOrphans{store_.take_orphans(orphans_max)});
}

/// Finds the objects of a get, or replies why there are none, and returns the reply's length. A Get
/// that needs other servers, too, is replied to as Find is.
template <typename Request>
Result<std::variant<FoundObjects, std::size_t>> Service::find_or_reply(ClientConnection from,
                                                                       const Request& request,
                                                                       ReplyTo<Request> reply) {
  using Outcome = std::variant<FoundObjects, std::size_t>;
  const auto replied = [](const Answer& length) {
    return length ? Result<Outcome>(Outcome(*length)) : Result<Outcome>(length.error());
  };
  const GetRequest& get = request.get;
  if (is_stale(get.variable, get.incarnation)) return replied(reply(protocol::Stale{}));
  auto got = store_.get(from, get, request.request_id);
  if (!got) return got.error();
  if (std::holds_alternative<NeedsOtherServers>(*got)) {
    if constexpr (std::is_same_v<Request, protocol::Get>) {
      auto all = store_.find(from, get, request.request_id);
      if (!all) return all.error();
      auto* found = std::get_if<FoundObjects>(&*all);
      // Of `latest`, a later version may have been found, which this server alone cannot complete.
      const bool others = found != nullptr &&
                          std::any_of(found->objects.begin(), found->objects.end(), is_elsewhere);
      if (others) return replied(objects_of(from, std::move(*found), reply));
      if (found != nullptr) (void)store_.release(from, found->lease);
    }
    return replied(reply(protocol::NeedsOtherServers{}));
  }
  if (const auto* waiting = std::get_if<Waiting>(&*got)) {
    const auto metadata = registry_.metadata(get.variable);
    const Ending ending = metadata ? metadata->ending() : Ending::none;
    waiting_.add(get.variable, from);
    return replied(reply(protocol::Wait{waiting->why, ending, waiting->gap.has_value(),
                                        waiting->gap.value_or(0), waiting->step}));
  }
  return Outcome(std::move(std::get<FoundObjects>(*got)));
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::Get& request,
                                ReplyTo<protocol::Get> reply) {
  auto outcome = find_or_reply(from, request, reply);
  if (!outcome) return outcome.error();
  if (const auto* length = std::get_if<std::size_t>(&*outcome)) return *length;
  FoundObjects& found = std::get<FoundObjects>(*outcome);
  const GetRequest& get = request.get;
  const std::int64_t bytes = get.box.points() * found.element_bytes;
  // An object with a checksum is copied by the client, which checks the bytes in its own memory.
  const bool plain = std::all_of(
      found.objects.begin(), found.objects.end(),
      [](const StoredObject& one) { return one.range.segment >= 0 && one.checksum.known == 0; });
  const protocol::InlineData head{found.version, found.type, found.element_bytes, {}, found.step};
  const auto around = static_cast<std::int64_t>(sizeof(ReplyKind) + encoded_bytes(head));
  const bool fits = bytes <= data_bytes() && bytes <= std::ssize(reply.room()) - around;
  if (!fits || !plain) return objects_of(from, std::move(found), reply);
  traffic_[get.variable].gets.add(1, bytes, message_path);
  return data_of(from, found, get.box, reply);
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::QueryVersion& request,
                                ReplyTo<protocol::QueryVersion> reply) {
  const auto outcome = find_or_reply(from, request, reply);
  if (!outcome) return outcome.error();
  if (const auto* length = std::get_if<std::size_t>(&*outcome)) return *length;
  const FoundObjects& found = std::get<FoundObjects>(*outcome);
  auto length = reply(protocol::VersionFound{found.version, found.step});
  if (Status status = store_.release(from, found.lease); !status) return status.error();
  return length;
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::Find& request,
                                ReplyTo<protocol::Find> reply) {
  const GetRequest& get = request.get;
  if (is_stale(get.variable, get.incarnation)) return reply(protocol::Stale{});
  if (request.watch) waiting_.add(get.variable, from);
  auto got = store_.find(from, get, request.request_id);
  if (!got) return got.error();
  if (auto* waiting = std::get_if<Waiting>(&*got)) {
    return reply(protocol::Wait{.why = waiting->why, .step = waiting->step});
  }
  return objects_of(from, std::move(std::get<FoundObjects>(*got)), reply);
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::Lease& request,
                                ReplyTo<protocol::Lease> reply) {
  if (request.watch) waiting_.add(request.variable, from);
  protocol::LeaseGranted here;
  auto leased = store_.lease(from, request.variable, request.version, request.objects, here.lease,
                             request.request_id);
  if (!leased) return leased.error();
  here.objects = std::move(*leased);
  return reply(here);
}

/// Replies with as many objects as fit; the others are kept for More.
template <typename Request>
Result<std::size_t> Service::objects_of(ClientConnection from, FoundObjects found,
                                        ReplyTo<Request> reply) {
  const std::uint64_t lease = found.lease;
  const std::size_t each = found.objects.empty() ? 1 : encoded_bytes(found.objects[0]);
  const std::size_t bytes = sizeof(ReplyKind) + encoded_bytes(protocol::Objects{}) +
                            found.type.size() + found.objects.size() * each;
  if (bytes > reply.bytes()) {
    auto length = reply(page_of(found, 0, reply.bytes()));
    if (length) {
      long_answers_[{from, lease}] = std::move(found);
    } else {
      (void)store_.release(from, lease);
    }
    return length;
  }
  auto length = reply(protocol::Objects{std::move(found), 0});
  if (!length) (void)store_.release(from, lease);
  return length;
}

/// Replies with the elements, gathered from the objects.
Result<std::size_t> Service::data_of(ClientConnection from, const FoundObjects& found,
                                     const Box& box, ReplyTo<protocol::Get> reply) {
  const auto gather = [&](std::span<std::byte> room) {
    std::vector<Part> parts;
    Box missing;
    (void)find_parts(box, found.objects, parts, missing);
    std::vector<const std::byte*> addresses;
    for (const Part& part : parts) {
      addresses.push_back(options_.address_of(found.objects[part.object].range));
    }
    copy_beside([&] {
      for (std::size_t k = 0; k < parts.size(); ++k) {
        const Box& from = found.objects[parts[k].object].box;
        const LoopNest nest = nest_of(parts[k].box, from, box, found.element_bytes);
        copy_nests({&nest, 1}, addresses[k], room.data(), false);
      }
    });
    return Status{};
  };
  protocol::InlineData inside{found.version, found.type, found.element_bytes, {}, found.step};
  inside.data.length = static_cast<std::size_t>(box.points() * found.element_bytes);
  inside.data.write = std::ref(gather);
  auto length = reply(inside);
  if (Status status = store_.release(from, found.lease); !status) return status.error();
  return length;
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::More& request,
                                ReplyTo<protocol::More> reply) {
  const auto found = long_answers_.find({from, request.lease});
  if (found == long_answers_.end() || request.first >= found->second.objects.size()) {
    return unreadable();
  }
  return reply(page_of(found->second, request.first, reply.bytes()));
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::Recall& request,
                                ReplyTo<protocol::Recall> reply) {
  auto here = store_.recall(from, request.lease, request.object);
  if (!here) return here.error();
  if (auto* waiting = std::get_if<Waiting>(&*here)) return wait(from, "", waiting->why, reply);
  return reply(protocol::Recalled{std::get<Range>(*here)});
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::Release& request,
                                ReplyTo<protocol::Release> reply) {
  long_answers_.erase({from, request.lease});
  if (Status status = store_.release(from, request.lease); !status) return status.error();
  if (const auto known = traffic_.find(request.variable); known != traffic_.end()) {
    known->second.gets.add(request.counts ? 1 : 0, request.bytes, path_of(request.path));
  }
  return reply(protocol::Done{});
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::Undo& request,
                                ReplyTo<protocol::Undo> reply) {
  for (const std::uint64_t lease : store_.undo(from, request.request_id)) {
    long_answers_.erase({from, lease});
  }
  return reply(protocol::Done{});
}

Result<std::size_t> Service::on(ClientConnection, const protocol::DropOrphans& request,
                                ReplyTo<protocol::DropOrphans> reply) {
  for (const Orphan& orphan : request.orphans) {
    if (orphan.primary == options_.store.server)
      store_.drop_orphan(orphan.object, request.index_server);
  }
  return reply(protocol::Done{});
}

Result<std::size_t> Service::on(ClientConnection, const protocol::Discard& request,
                                ReplyTo<protocol::Discard> reply) {
  steps_.remove(request.variable, request.version);
  const Status status = store_.discard(request.variable, request.version);
  if (!status) return status.error();
  return reply(protocol::DoneWithOrphans{store_.take_orphans(orphans_max)});
}

Result<std::size_t> Service::on(ClientConnection, const protocol::DiscardToo& request,
                                ReplyTo<protocol::DiscardToo> reply) {
  const PutRequest& object = request.object;
  if (is_stale(object.variable, object.incarnation)) return reply(protocol::Stale{});
  steps_.remove(object.variable, object.version);
  const Status status = store_.discard_too(object);
  if (!status) return status.error();
  return reply(protocol::DoneWithOrphans{store_.take_orphans(orphans_max)});
}

/// Records that a client has put to a version, if this is the variable's metadata server.
void Service::take_part(ClientConnection from, const std::string& variable, std::int64_t version,
                        bool finished, bool box) {
  const bool known = registry_.all().find(variable) != registry_.all().end();
  if (!known || !is_metadata_server(variable)) return;
  (void)registry_.take_part(clients_.at(from).id, variable, {version, version, finished, box});
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::Finish& request,
                                ReplyTo<protocol::Finish> reply) {
  if (!is_metadata_server(request.variable)) return unreadable();
  const bool known = registry_.all().find(request.variable) != registry_.all().end();
  if (!known && !request.announces) return reply(protocol::Done{});  // it was deleted
  const Status status =
      registry_.take_part(clients_.at(from).id, request.variable,
                          {request.first, request.last, request.finished, request.box});
  changes_.insert(request.variable);
  return status ? reply(protocol::Done{}) : Answer(status.error());
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::PutEmpty& request,
                                ReplyTo<protocol::PutEmpty> reply) {
  const PutRequest& object = request.object;
  if (draining_) return closing();
  if (Status status = check_step(from, object.step); !status) return status.error();
  if (is_stale(object.variable, object.incarnation)) return reply(protocol::Stale{});
  const Status status = store_.put_empty(from, object, request.empty_dimensions);
  if (!status) return status.error();
  take_part(from, object.variable, object.version, request.finishes, false);
  return reply(protocol::DoneWithOrphans{store_.take_orphans(orphans_max)});
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::FindExtent& request,
                                ReplyTo<protocol::FindExtent> reply) {
  if (is_stale(request.variable, request.incarnation)) return reply(protocol::Stale{});
  if (request.watch) waiting_.add(request.variable, from);
  const auto found = store_.extent(
      {request.variable, request.choice, request.version, Box{}, request.incarnation});
  if (!found) return found.error();
  if (const auto* waiting = std::get_if<Waiting>(&*found)) {
    return reply(protocol::Wait{.why = waiting->why, .step = waiting->step});
  }
  return reply(protocol::ExtentFound{std::get<Extent>(*found)});
}

/// A request without a number goes to the metadata server, which replies with the deletion's
/// number.
Result<std::size_t> Service::on(ClientConnection, const protocol::Remove& request,
                                ReplyTo<protocol::Remove> reply) {
  protocol::Removed removed{request.number, false, {}};
  if (removed.number == 0) {
    std::tie(removed.number, removed.any) = registry_.remove(request.variable);
  }
  steps_.remove(request.variable);  // before its versions go: those steps stay without it
  removed.any = store_.remove(request.variable, removed.number) || removed.any;
  traffic_.erase(request.variable);
  attributes_.remove(request.variable);
  changes_.insert(request.variable);
  removed.orphans = store_.take_orphans(orphans_max);
  return reply(removed);
}

/// Adds producers and statistics.
void Service::complete_info(VariableInfo& info) const {
  const auto metadata = registry_.all().find(info.name);
  if (metadata != registry_.all().end()) info.producers = metadata->second.producers;
  const auto traffic = traffic_.find(info.name);
  if (traffic != traffic_.end()) info.traffic = traffic->second;
}

std::vector<VariableInfo> Service::list_from(const std::string& after, std::int64_t after_version,
                                             std::size_t rows_max) const {
  std::vector<std::string> names = store_.names_from(after, rows_max);
  const auto declared =
      registry_.all().names_from(after, rows_max, [](const VariableMetadata&) { return true; });
  names.insert(names.end(), declared.begin(), declared.end());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  if (names.size() > rows_max) names.resize(rows_max);  // further names may be incomplete
  std::vector<VariableInfo> listed;
  std::size_t rows = 0;
  for (const std::string& name : names) {
    if (rows >= rows_max) break;
    const bool first = name == after;
    auto info =
        store_.info(name, first ? std::optional(after_version) : std::nullopt, rows_max - rows);
    if (first && (!info || info->versions.empty())) continue;  // it was listed before
    if (!info) {
      const VariableMetadata& metadata = registry_.all().at(name);
      info = VariableInfo{name, metadata.type, metadata.element_bytes, metadata.first, {}, 0};
    }
    complete_info(*info);
    if (first) info->traffic = {};  // it is in the page before
    rows += 1 + info->versions.size();
    listed.push_back(std::move(*info));
  }
  return listed;
}

std::vector<VariableInfo> Service::list() const { return list_from({}, INT64_MIN, SIZE_MAX); }

/// Replies with what comes after a version of a variable, as much as fits.
Result<std::size_t> Service::on(ClientConnection, const protocol::List& request,
                                ReplyTo<protocol::List> reply) const {
  protocol::Listed listed;
  std::size_t taken = sizeof(ReplyKind) + encoded_bytes(listed);
  const std::size_t row = encoded_bytes(VersionInfo{});  // no row takes less
  for (VariableInfo& info : list_from(request.after, request.after_version, reply.bytes() / row)) {
    const std::vector<VersionInfo> versions = std::exchange(info.versions, {});
    taken += encoded_bytes(info);
    const std::size_t room = taken < reply.bytes() ? (reply.bytes() - taken) / row : 0;
    if (room == 0) break;
    const std::size_t count = std::min(room, versions.size());
    info.versions.assign(versions.begin(), versions.begin() + static_cast<std::ptrdiff_t>(count));
    taken += count * row;
    listed.variables.push_back(std::move(info));
    if (count < versions.size()) break;
  }
  return reply(listed);
}

/// Replies with the names of clients as far as they fit.
Result<std::size_t> Service::on(ClientConnection, const protocol::QueryStatus&,
                                ReplyTo<protocol::QueryStatus> reply) const {
  ServerInfo info{options_.store.server,
                  options_.contact,
                  options_.store.memory_bytes,
                  store_.memory_bytes_used(),
                  store_.spilled_bytes(),
                  clients(),
                  {}};
  std::size_t room = reply.bytes() / 2;
  for (const auto& [client, known] : clients_) {
    const std::size_t bytes = encoded_bytes(known.name);
    if (bytes > room) break;
    room -= bytes;
    info.names.push_back(known.name);
  }
  std::sort(info.names.begin(), info.names.end());
  return reply(protocol::ServerStatus{std::move(info)});
}

bool Service::is_connected(const ClientId& id) const {
  return std::any_of(clients_.begin(), clients_.end(),
                     [&](const auto& one) { return one.second.id == id; });
}

void Service::lost(ClientConnection from) {
  waiting_for_servers_.erase(from);
  const auto client = clients_.find(from);
  if (client == clients_.end()) return;
  const ClientId id = client->second.id;
  const std::string name = client->second.name;
  clients_.erase(client);
  lost_[from] = id;
  waiting_.drop(from);
  std::erase_if(long_answers_, [&](const auto& one) { return one.first.first == from; });
  store_.lost(from);
  steps_.drop_settler(from);
  if (!is_connected(id)) changes_.merge(registry_.lost(id));
  if (!is_connected(id) && steps_.lost(id, name)) changes_.insert(steps_watch);
  if (!is_connected(id) && readers_.lost(id)) changes_.insert(steps_watch);
  conclude();
}

void Service::closed(ClientConnection from) {
  lost(from);
  end(from, true);
  conclude();
}

void Service::gone(ClientConnection from, bool cleanly) {
  if (const auto server = joined_.find(from); server != joined_.end()) {
    dead_servers_.insert(server->second);
    joined_.erase(server);
    steps_.settle_again();
  }
  lost(from);
  if (!lost_.contains(from)) return;
  end(from, cleanly);
  lost_.erase(from);
  store_.gone(from);
  conclude();
}

/// Records, once, how a client whose connection is lost has ended.
void Service::end(ClientConnection from, bool cleanly) {
  const auto client = lost_.find(from);
  if (client == lost_.end()) return;
  const auto id = std::exchange(client->second, std::nullopt);
  if (id && !is_connected(*id)) changes_.merge(registry_.gone(*id, cleanly));
  if (id && !is_connected(*id) && steps_.gone(*id, cleanly)) changes_.insert(steps_watch);
}

void Service::ended(const Move& move, const Status& status) {
  store_.ended(move, status);
  conclude();
}

void Service::return_stock(const Range& part, bool ready) {
  store_.return_stock(part, ready);
  conclude();
}

/// Hands out moves, and sends one notice to each client that waits for something that has changed;
/// the client then repeats its request.
void Service::conclude() {
  settle_ended_steps();
  for (const Move& move : store_.take_moves()) options_.move(move);
  changes_.merge(store_.take_changes());
  std::set<ClientConnection> notified;
  for (const std::string& variable : changes_) {
    notified.merge(waiting_.take(variable));
  }
  changes_.clear();
  for (const ClientConnection client : notified) options_.notify(client);
}

}  // namespace tranship::staging
