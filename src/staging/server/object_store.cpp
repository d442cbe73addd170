#include "staging/server/object_store.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace tranship::staging {
namespace {

Error no_memory(std::int64_t bytes, const Error& why) {
  return {ErrorCode::out_of_memory,
          "the server's machine has no memory for an object of " + std::to_string(bytes) +
              " bytes: " + why.text(),
          "free some there, or start the server with a smaller "
          "--memory, and more servers on other machines"};
}

Waiting none_after(const GetRequest& request) {
  return {"there is no version of " + in_quotes(request.variable) + " after " +
          std::to_string(request.version)};
}

Waiting none_covers(const GetRequest& request) {
  return {"no version of " + in_quotes(request.variable) + " covers " + request.box.text()};
}

Waiting waiting_with_step(const VersionHistory& versions, const GetRequest& request,
                          Waiting waiting) {
  waiting.step = versions.withheld_beside(request.choice, request.version, {});
  return waiting;
}

std::variant<FoundObjects, Waiting, NeedsOtherServers> with_step(const VersionHistory& versions,
                                                                 const GetRequest& request,
                                                                 Waiting waiting) {
  return waiting_with_step(versions, request, std::move(waiting));
}

Error step_has_ended() {
  return {ErrorCode::not_found, "the step of this put has ended, or a writer of it has died",
          "begin the next step"};
}

}  // namespace

ObjectStore::ObjectStore(Options options)
    : options_(std::move(options)),
      residency_({options_.memory_bytes, options_.segment_bytes,
                  options_.full == Full::spill ? options_.spill_bytes : 0, options_.make_segment,
                  options_.take_pages, options_.give_back_pages}),
      variables_(options_.limits, options_.versions_max),
      deletions_(options_.servers),
      reads_({options_.limits, options_.now_ns}, objects_, residency_, leases_) {}

std::set<std::string> ObjectStore::take_changes() {
  const bool idle = reads_.take_idle();
  if (residency_.take_freed() || idle) changes_.insert("");
  for (const auto& [client, number] : reads_.take_ended_offers()) end_offer(client, number);
  return std::exchange(changes_, {});
}

/// Returns the variable that the request describes, which is made unless it is there.
Result<HeldVariable*> ObjectStore::incarnation_of(const PutRequest& request) {
  if (Status status = check_element(request); !status) return status.error();
  HeldVariable* variable = variables_.find(request.variable);
  if (variable != nullptr && variable->incarnation < request.incarnation.number) {
    // It was deleted, by a client that died before it could say so here.
    erase_variable(request.variable, *variable);
    variable = nullptr;
  }
  if (variable == nullptr) return variables_.make(request);
  if (variable->incarnation != request.incarnation.number) {
    return Error{ErrorCode::not_found, in_quotes(request.variable) + " is being deleted",
                 "put it again if it is to be there"};
  }
  return variable;
}

/// Returns the variable of a put, unless it takes no such object.
Result<HeldVariable*> ObjectStore::variable_for(const PutRequest& request) {
  auto variable = incarnation_of(request);
  if (!variable) return variable;
  if (Status status = variables_.check_put(request, **variable); !status) return status.error();
  if (request.step != 0 && steps_.has_ended(request.step)) {
    drop_if_unused(request.variable, request.version);
    return step_has_ended();
  }
  return variable;
}

/// Checks that limits allow one more object or index entry.
Status ObjectStore::check_limits(ClientConnection client, const HeldVariable& variable,
                                 std::int64_t version) const {
  const Limits& limits = options_.limits;
  if (std::ssize(objects_) + static_cast<std::int64_t>(entries_.size()) >= limits.boxes) {
    return limit_reached("the boxes that the server knows are", limits.boxes, "staging_boxes");
  }
  const Leases::Holdings* holdings = leases_.holdings(client);
  if (holdings != nullptr &&
      std::ssize(holdings->rooms) + std::ssize(holdings->entries) >= limits.client_puts) {
    return limit_reached("the puts that this client has under way are", limits.client_puts,
                         "staging_puts");
  }
  const VersionIndex* held = variable.versions.find(version);
  if (held == nullptr || held->boxes() < limits.version_boxes) return {};
  return limit_reached("the boxes of one version are", limits.version_boxes,
                       "staging_version_boxes");
}

Result<std::variant<GrantedRoom, Waiting>> ObjectStore::begin(ClientConnection client,
                                                              const PutRequest& request,
                                                              const RoomRequest& room) {
  auto variable = variable_for(request);
  if (!variable) return variable.error();
  const std::uint64_t number = ++last_object_;
  const Status allowed = check_limits(client, **variable, request.version);
  auto placed = allowed ? make_room(request, number, room)
                        : Result<std::variant<Range, Waiting>>(allowed.error());
  if (!placed || std::holds_alternative<Waiting>(*placed)) {
    drop_if_unused(request.variable, request.version);
    if (!placed) return placed.error();
    return std::variant<GrantedRoom, Waiting>(std::get<Waiting>(*placed));
  }
  const GrantedRoom begun{number, std::get<Range>(*placed)};
  ServerObject& object = add_begun(client, number, request, **variable, room.request_id);
  object.bytes = begun.range.bytes;
  object.index_servers = room.index_servers;
  return std::variant<GrantedRoom, Waiting>(begun);
}

/// Adds an object of a variable that a client has begun.
ServerObject& ObjectStore::add_begun(ClientConnection client, std::uint64_t number,
                                     const PutRequest& request, HeldVariable& variable,
                                     RequestId request_id) {
  ServerObject object;
  object.variable = request.variable;
  object.version = request.version;
  object.box = request.box;
  object.client = client;
  object.step = request.step;
  ServerObject& begun = objects_.emplace(number, std::move(object)).first->second;
  variable.versions.hold(request.version).begin_put();
  leases_.add_room(client, number, request_id);
  return begun;
}

Result<std::variant<Range, Waiting>> ObjectStore::make_room(const PutRequest& request,
                                                            std::uint64_t object,
                                                            const RoomRequest& room) {
  const Effort effort = room.effort;
  const std::int64_t bytes = request.box.points() * request.element_bytes;
  const bool discards = options_.full == Full::discard_oldest && effort != Effort::free_memory;
  const bool spills = options_.full == Full::spill && effort == Effort::all;
  const bool last = effort == Effort::all;  // until then, other servers may have room
  const auto refusal = [&](const std::string& why) {
    return Error{ErrorCode::out_of_memory,
                 "an object of " + std::to_string(bytes) +
                     " bytes does not fit the server, which may take " +
                     std::to_string(options_.memory_bytes) + " bytes of memory" + why,
                 "start it with more"};
  };
  if (bytes > options_.memory_bytes) return refusal("");
  while (true) {
    const auto placed = residency_.place(object, bytes, room.ready);
    if (placed && *placed) return std::variant<Range, Waiting>(residency_.range(object));
    // Memory that is being allocated is free soon: no object has to leave for this one.
    if (placed && residency_.is_growing()) {
      return std::variant<Range, Waiting>(Waiting{"memory is being allocated"});
    }
    const bool helps = placed || residency_.could_hold(bytes);
    if (helps && discards && discard_oldest(request)) continue;
    if (helps && spills && residency_.let_go(bytes)) continue;
    if (!placed && last && !residency_.leaving()) return no_memory(bytes, placed.error());
    if (!placed) return std::variant<Range, Waiting>(Waiting{placed.error().text()});
    // All memory is free, and each free range is too small: waiting would not change that.
    if (residency_.empty() && last) return refusal(" in pieces that are smaller");
    return std::variant<Range, Waiting>(Waiting{why_full()});
  }
}

std::string ObjectStore::why_full() const {
  if (fenced_bytes_ == 0) return residency_.why_full();
  return residency_.why_full() + "; " + std::to_string(fenced_bytes_) +
         " bytes of it may still be written by clients whose connections were lost";
}

/// Discards the version with the oldest object that may go. Returns whether that freed memory.
bool ObjectStore::discard_oldest(const PutRequest& but_this) {
  std::uint64_t oldest = 0;
  std::uint64_t order = UINT64_MAX;
  for (const auto& [number, object] : objects_) {
    const bool same = object.variable == but_this.variable && object.version == but_this.version;
    if (object.order == 0 || object.discarded || object.leases > 0 || same) continue;
    if (object.offer != nullptr) continue;  // it takes no memory here
    if (variables_.at(object.variable).versions.at(object.version).pending() > 0) continue;
    if (object.order < order) oldest = number;
    order = std::min(order, object.order);
  }
  if (oldest == 0) return false;
  const ServerObject object = objects_.at(oldest);
  const std::int64_t used_before = residency_.memory_bytes_used();
  discard_version(object.variable, variables_.at(object.variable), object.version);
  return residency_.memory_bytes_used() < used_before;
}

/// Returns null unless the client has begun the object, and not ended it.
ServerObject* ObjectStore::begun_by(ClientConnection client, std::uint64_t number) {
  const auto found = objects_.find(number);
  if (found == objects_.end()) return nullptr;
  ServerObject& object = found->second;
  const bool begun = object.order == 0 && !object.withheld;
  return begun && object.client == client ? &object : nullptr;
}

Status ObjectStore::take_pages(ClientConnection client, std::uint64_t number) {
  const ServerObject* object = begun_by(client, number);
  if (object == nullptr) {
    return Error{ErrorCode::not_found, "there is no such object to write"};
  }
  const Status status = residency_.take_pages(number);
  return status ? status : no_memory(object->bytes, status.error());
}

Result<std::uint64_t> ObjectStore::commit(ClientConnection client, std::uint64_t number,
                                          std::uint64_t order_before, const Checksum& checksum) {
  ServerObject* begun = begun_by(client, number);
  if (begun == nullptr) {
    return Error{ErrorCode::not_found, "there is no such object to commit"};
  }
  ServerObject& object = *begun;
  if (!residency_.has_pages(number)) {
    return Error{ErrorCode::invalid_argument, "an object whose memory has no pages is not whole"};
  }
  if (object.step != 0 && steps_.has_ended(object.step)) {
    (void)abort(client, number);
    return step_has_ended();
  }
  leases_.remove_room(client, number);
  if (object.discarded) {
    Error why{ErrorCode::not_found,
              version_of(object.variable, object.version) + " was discarded while it was put"};
    drop(number);
    return why;
  }
  order_ = std::max(order_, order_before) + 1;
  object.checksum = checksum;
  if (object.offer != nullptr) offers_[client].insert(number);
  const std::uint64_t order = order_;
  if (object.step == 0) {
    show(number, order);
    return order;
  }
  object.withheld = true;
  residency_.may_leave(number, order);
  variables_.at(object.variable).versions.withhold(object.version, object.step);
  steps_.of(object.step).objects.emplace(number, order);
  return order;
}

/// Makes a whole object visible.
void ObjectStore::show(std::uint64_t number, std::uint64_t order) {
  ServerObject& object = objects_.at(number);
  HeldVariable& variable = variables_.at(object.variable);
  object.order = order;
  variable.versions.at(object.version).end_put();
  variable.versions.add_object(object.version, number, object.box, object.bytes);
  const bool is_late = std::exchange(object.withheld, false);
  if (!is_late) residency_.may_leave(number, order);
  if (!variable.bounds) variable.bounds = object.box;
  *variable.bounds = around(*variable.bounds, object.box);
  changes_.insert(object.variable);
  const std::string name = object.variable;
  drop_hidden(name, object.version, Box(object.box), order);
  if (is_late) drop_if_hidden(number);
  discard_excess(name, variable);
}

Status ObjectStore::abort(ClientConnection client, std::uint64_t number) {
  if (begun_by(client, number) == nullptr) {
    return Error{ErrorCode::not_found, "there is no such object to give up"};
  }
  leases_.remove_room(client, number);
  give_up(number);
  residency_.drop(number);
  return {};
}

/// The object will not be committed. Its memory may still be fenced.
void ObjectStore::give_up(std::uint64_t number) {
  const ServerObject object = std::move(objects_.at(number));
  objects_.erase(number);
  changes_.insert(object.variable);  // readers that wait for it search again
  if (object.discarded) return;
  HeldVariable& variable = variables_.at(object.variable);
  variable.versions.at(object.version).end_put();
  discard_excess(object.variable, variable);
  drop_if_unused(object.variable, object.version);
}

Result<std::uint64_t> ObjectStore::index(ClientConnection client, const PutRequest& request,
                                         const RemoteObject& where) {
  if (entry_of(request.variable, request.version, where.id)) {
    return Error{ErrorCode::invalid_argument, "this object was entered before"};
  }
  auto variable = variable_for(request);
  if (!variable) return variable.error();
  Status allowed = check_limits(client, **variable, request.version);
  if (allowed && where.overflow && !entries_.has_room_for_overflow()) {
    allowed = Error{ErrorCode::out_of_memory, "too many objects lie on servers that only help out",
                    "keep fewer versions, or "
                    "give the servers more memory"};
  }
  if (!allowed) {
    drop_if_unused(request.variable, request.version);
    return allowed.error();
  }
  VersionIndex& version = (*variable)->versions.hold(request.version);
  const std::uint64_t number = ++last_object_;
  version.add_entry(where.id, number, request.box);
  version.begin_put();
  entries_.add(number, {where, request.box, client, IndexEntry::State::pending, request.variable,
                        request.version, 0, request.step});
  if (request.step != 0) {
    (*variable)->versions.withhold(request.version, request.step);
    steps_.of(request.step).entries.insert(number);
  }
  leases_.add_entry(client, number);
  changes_.insert(request.variable);
  return order_;
}

/// Returns the number of an entry; nothing if there is none.
std::optional<std::uint64_t> ObjectStore::entry_of(const std::string& name, std::int64_t version,
                                                   const ObjectId& object) const {
  const HeldVariable* variable = variables_.find(name);
  if (variable == nullptr) return std::nullopt;
  const VersionIndex* held = variable->versions.find(version);
  return held == nullptr ? std::nullopt : held->entry(object);
}

/// Returns the number of an entry that the client may end: it made the entry, or the client that
/// made it is lost; and the entry is not confirmed.
std::optional<std::uint64_t> ObjectStore::open_entry_of(ClientConnection client,
                                                        const std::string& name,
                                                        std::int64_t version,
                                                        const ObjectId& object) const {
  const auto number = entry_of(name, version, object);
  if (!number) return std::nullopt;
  const IndexEntry& entry = entries_.at(*number);
  if (entry.state == IndexEntry::State::confirmed || entry.state == IndexEntry::State::withheld) {
    return std::nullopt;
  }
  if (entry.state == IndexEntry::State::pending && entry.client != client) return std::nullopt;
  return number;
}

void ObjectStore::unindex(ClientConnection client, const std::string& name, std::int64_t number,
                          const ObjectId& object) {
  const auto key = open_entry_of(client, name, number, object);
  if (key) drop_entry(*key);
}

/// Removes an entry whose object will not be seen.
void ObjectStore::drop_entry(std::uint64_t key) {
  const IndexEntry entry = entries_.at(key);
  HeldVariable& variable = variables_.at(entry.variable);
  VersionIndex& version = variable.versions.at(entry.version);
  if (entry.state == IndexEntry::State::pending) leases_.remove_entry(entry.client, key);
  if (entry.state != IndexEntry::State::doubtful) version.end_put();
  if (entry.step != 0) {
    variable.versions.end_withholding(entry.version, entry.step);
    steps_.remove_entry(entry.step, key);
  }
  version.remove_entry(entry.where.id, entry.box);
  entries_.remove(key);
  changes_.insert(entry.variable);
  discard_excess(entry.variable, variable);
  drop_if_unused(entry.variable, entry.version);
}

void ObjectStore::confirm(ClientConnection client, const std::string& name, std::int64_t number,
                          const ObjectId& object, std::uint64_t order) {
  order_ = std::max(order_, order);
  const auto key = open_entry_of(client, name, number, object);
  if (!key) return;
  IndexEntry& entry = entries_.at(*key);
  entry.order = order;
  if (entry.step != 0 && !steps_.has_ended(entry.step)) {
    if (entry.state == IndexEntry::State::pending) leases_.remove_entry(client, *key);
    if (entry.state == IndexEntry::State::doubtful) {
      variables_.at(name).versions.at(number).begin_put();
    }
    entry.state = IndexEntry::State::withheld;
    return;
  }
  show_entry(*key);
}

/// Records that the object of an entry, whose order is known, is visible.
void ObjectStore::show_entry(std::uint64_t key) {
  IndexEntry& entry = entries_.at(key);
  HeldVariable& variable = variables_.at(entry.variable);
  if (entry.state == IndexEntry::State::pending) leases_.remove_entry(entry.client, key);
  if (entry.state != IndexEntry::State::doubtful) {
    variable.versions.at(entry.version).end_put();
  }
  entry.state = IndexEntry::State::confirmed;
  variable.versions.confirm_entry(entry.version);
  const std::string name = entry.variable;
  drop_hidden(name, entry.version, Box(entry.box), entry.order);
  discard_excess(name, variable);
}

/// Forgets a version of which nothing is there, and a variable of which nothing ever was.
void ObjectStore::drop_if_unused(const std::string& name, std::int64_t version) {
  HeldVariable& variable = variables_.at(name);
  variable.versions.drop_if_unused(version);
  if (variable.versions.empty() && !variable.bounds) variables_.erase(name);
}

/// Discards the versions above the limit.
void ObjectStore::discard_excess(const std::string& name, HeldVariable& variable) {
  for (const std::int64_t version : variable.versions.excess()) {
    discard_version(name, variable, version);
  }
}

void ObjectStore::discard_version(const std::string& name, HeldVariable& variable,
                                  std::int64_t version) {
  const auto steps = variable.versions.withheld(version);
  drop_version(name, version, variable.versions.discard(version), steps);
}

/// Drops the objects and entries of a version that is held no more. What is being written to it
/// cannot be committed. `steps`: Those of which something was withheld at the version.
void ObjectStore::drop_version(const std::string& name, std::int64_t version,
                               const VersionIndex& index, const std::vector<std::uint64_t>& steps) {
  std::vector<std::uint64_t> numbers;
  index.all_objects(numbers);
  for (const std::uint64_t number : numbers) {
    ServerObject& object = objects_.at(number);
    object.discarded = true;
    if (object.leases == 0) drop(number);
  }
  if (index.pending() > 0) {
    leases_.each_room([&](const Leases::RoomGrant& room) {
      ServerObject& object = objects_.at(room.object);
      if (object.variable == name && object.version == version) object.discarded = true;
    });
  }
  for (const std::uint64_t step : steps) {
    const WithheldStep* withheld = steps_.find(step);
    if (withheld == nullptr) continue;
    std::vector<std::uint64_t> dropped;
    for (const auto& [number, order] : withheld->objects) {
      const ServerObject& object = objects_.at(number);
      if (object.variable == name && object.version == version) dropped.push_back(number);
    }
    for (const std::uint64_t number : dropped) drop(number);
    steps_.remove_empty(step, name, version);
  }
  for (const auto& [where, number] : index.entries()) {
    const IndexEntry& entry = entries_.at(number);
    if (entry.state == IndexEntry::State::pending) leases_.remove_entry(entry.client, number);
    if (entry.step != 0) steps_.remove_entry(entry.step, number);
    entries_.discard(number);
  }
  changes_.insert(name);
  if (options_.on_discard) options_.on_discard(name, version);
}

void ObjectStore::erase_variable(const std::string& name, HeldVariable& variable) {
  VersionHistory& versions = variable.versions;
  while (!versions.held().empty()) {
    const std::int64_t version = versions.held().begin()->first;
    const auto steps = versions.withheld(version);
    drop_version(name, version, versions.remove(version), steps);
  }
  changes_.insert(name);
  variables_.erase(name);
}

bool ObjectStore::remove(const std::string& name, std::uint64_t number) {
  deletions_.add(name, number);
  HeldVariable* variable = variables_.find(name);
  if (variable == nullptr) return false;
  // What was made after the deletion is another variable of that name, unless no metadata server
  // can have counted so far meanwhile.
  const std::uint64_t incarnation = variable->incarnation;
  if (incarnation > number && incarnation - number < std::uint64_t{1} << 32) return false;
  erase_variable(name, *variable);
  return true;
}

void ObjectStore::drop_orphan(std::uint64_t number, int index_server) {
  const auto found = objects_.find(number);
  if (found == objects_.end() || found->second.discarded) return;
  ServerObject& object = found->second;
  if (std::erase(object.index_servers, index_server) == 0 || !object.index_servers.empty()) return;
  take_out(number);
}

/// Takes an object out of its version: no reader finds it any more.
void ObjectStore::take_out(std::uint64_t number) {
  ServerObject& object = objects_.at(number);
  object.discarded = true;
  HeldVariable& variable = variables_.at(object.variable);
  const bool withheld = object.withheld;
  if (withheld) variable.versions.end_withholding(object.version, object.step);
  if (object.order == 0) {
    variable.versions.at(object.version).end_put();  // its commit fails
  } else {
    variable.versions.remove_object(object.version, number, object.box, object.bytes);
  }
  changes_.insert(object.variable);
  drop_if_unused(object.variable, object.version);
  if ((object.order > 0 || withheld) && object.leases == 0) drop(number);
}

Status ObjectStore::discard(const std::string& name, std::int64_t version) {
  HeldVariable* variable = variables_.find(name);
  if (variable == nullptr || !variable->versions.contains(version)) {
    return Error{ErrorCode::not_found, "there is no " + version_of(name, version)};
  }
  discard_version(name, *variable, version);
  return {};
}

Status ObjectStore::discard_too(const PutRequest& request) {
  const auto variable = incarnation_of(request);
  if (!variable) return variable.error();
  if (!(*variable)->versions.was_discarded(request.version)) {
    discard_version(request.variable, **variable, request.version);
  }
  return {};
}

void ObjectStore::drop(std::uint64_t number) {
  const ServerObject& object = objects_.at(number);
  if (object.withheld) steps_.remove_object(object.step, number);
  if (object.offer != nullptr) end_offer(object.client, number);
  residency_.drop(number);
  objects_.erase(number);
}

void ObjectStore::lost(ClientConnection client) {
  for (const Leases::RoomGrant& room : leases_.fence(client)) {
    const ServerObject& object = objects_.at(room.object);
    if (object.offer == nullptr) fenced_bytes_ += object.bytes;
    give_up(room.object);
  }
  lose_offers(client);
  reads_.lose(client);
  for (const std::uint64_t number : leases_.take_entries(client)) {
    IndexEntry& entry = entries_.at(number);
    entry.state = IndexEntry::State::doubtful;
    HeldVariable& variable = variables_.at(entry.variable);
    variable.versions.at(entry.version).end_put();
    changes_.insert(entry.variable);
    const std::string name = entry.variable;
    discard_excess(name, variable);
  }
}

void ObjectStore::gone(ClientConnection client) {
  lost(client);
  reads_.end_all(client);
  for (const std::uint64_t number : leases_.end(client)) {
    fenced_bytes_ -= residency_.range(number).bytes;
    residency_.drop(number);
  }
}

std::vector<std::uint64_t> ObjectStore::undo(ClientConnection client, RequestId request_id) {
  const Leases::Holdings* holdings = leases_.holdings(client);
  if (request_id == 0 || holdings == nullptr || holdings->lost) return {};
  for (const Leases::RoomGrant& room : std::vector(holdings->rooms)) {
    if (room.request_id == request_id) (void)abort(client, room.object);
  }
  return reads_.undo(client, request_id);
}

std::vector<StoredObject> ObjectStore::own_objects(const VersionIndex& version,
                                                   const Box& box) const {
  std::vector<std::uint64_t> numbers;
  version.find_objects(box, numbers);
  std::vector<StoredObject> objects;
  objects.reserve(numbers.size());
  for (const std::uint64_t number : numbers) {
    const ServerObject& object = objects_.at(number);
    objects.push_back({options_.server, number, object.box, object.order, residency_.range(number),
                       0, object.checksum});
  }
  sort_newest_first(objects);
  return objects;
}

Error ObjectStore::discarded(const std::string& name, const HeldVariable& variable,
                             std::int64_t version) const {
  std::string kept;
  const auto& held = variable.versions.held();
  if (!held.empty()) {
    kept = "; held are " + std::to_string(held.begin()->first) + " to " +
           std::to_string(held.rbegin()->first);
  }
  return {ErrorCode::not_found, version_of(name, version) + " was discarded" + kept};
}

Result<std::variant<FoundObjects, Waiting, NeedsOtherServers>> ObjectStore::get(
    ClientConnection client, const GetRequest& request, RequestId request_id) {
  using Answer = std::variant<FoundObjects, Waiting, NeedsOtherServers>;
  if (Status status = reads_.check(client); !status) return status.error();
  const auto variable = variables_.visible_box(request);
  if (!variable) return variable.error();
  if (*variable == nullptr) {
    return Answer(Waiting{"nothing has been put to " + in_quotes(request.variable) + " yet"});
  }
  const VersionHistory& versions = (*variable)->versions;
  if (request.choice == VersionChoice::exact) {
    return get_version(client, request, **variable, request.version, request_id);
  }
  if (request.choice == VersionChoice::next) {
    const auto next = versions.next(request.version, request.box);
    if (next == versions.held().end()) return with_step(versions, request, none_after(request));
    return get_version(client, request, **variable, next->first, request_id);
  }
  const auto& held = versions.held();
  for (auto one = held.upper_bound(request.version); one != held.begin();) {
    --one;
    auto answer = get_version(client, request, **variable, one->first, request_id);
    if (!std::holds_alternative<Waiting>(*answer)) return answer;
  }
  return with_step(versions, request, none_covers(request));
}

Result<std::variant<FoundObjects, Waiting, NeedsOtherServers>> ObjectStore::get_version(
    ClientConnection client, const GetRequest& request, const HeldVariable& variable,
    std::int64_t version, RequestId request_id) {
  using Answer = std::variant<FoundObjects, Waiting, NeedsOtherServers>;
  const VersionIndex* held = variable.versions.find(version);
  if (held == nullptr) {
    if (variable.versions.was_discarded(version))
      return discarded(request.variable, variable, version);
    return Answer(Waiting{version_of(request.variable, version) + " is not there"});
  }
  const VersionHistory& versions = variable.versions;
  if (held->meets_entries(request.box)) return Answer(NeedsOtherServers{});
  std::vector<StoredObject> objects = own_objects(*held, request.box);
  std::vector<Part> parts;
  Box missing;
  if (!find_parts(request.box, objects, parts, missing)) {
    const bool next = request.choice == VersionChoice::next;
    return with_step(versions, request,
                     Waiting{version_of(request.variable, version) + " lacks " + missing.text(),
                             next ? std::optional(version) : std::nullopt});
  }
  // The parts are in the order of the objects: what is hidden altogether has none.
  FoundObjects found{version, variable.type, variable.element_bytes, 0, {}};
  std::vector<std::uint64_t> numbers;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    if (k > 0 && parts[k].object == parts[k - 1].object) continue;
    found.objects.push_back(objects[parts[k].object]);
    numbers.push_back(objects[parts[k].object].object);
  }
  found.lease = reads_.grant(client, request_id, std::move(numbers));
  found.step = versions.withheld_beside(request.choice, request.version, version);
  return Answer(std::move(found));
}

Result<std::variant<FoundObjects, Waiting>> ObjectStore::find(ClientConnection client,
                                                              const GetRequest& request,
                                                              RequestId request_id) {
  using Answer = std::variant<FoundObjects, Waiting>;
  if (Status status = reads_.check(client); !status) return status.error();
  const auto variable = variables_.visible_box(request);
  if (!variable) return variable.error();
  if (*variable == nullptr) {
    return Answer(Waiting{"nothing has been put to " + in_quotes(request.variable) + " yet"});
  }
  const VersionHistory& versions = (*variable)->versions;
  auto held = versions.held().find(request.version);
  if (request.choice == VersionChoice::exact) {
    if (versions.was_discarded(request.version)) {
      return discarded(request.variable, **variable, request.version);
    }
    if (held == versions.held().end()) {
      return Answer(Waiting{version_of(request.variable, request.version) + " is not there"});
    }
  } else if (request.choice == VersionChoice::next) {
    held = versions.next(request.version, request.box);
    if (held == versions.held().end()) {
      return Answer(waiting_with_step(versions, request, none_after(request)));
    }
  } else {
    held = versions.latest(request.version, request.box);
    if (held == versions.held().end()) {
      return Answer(waiting_with_step(versions, request, none_covers(request)));
    }
  }
  FoundObjects found{held->first, (*variable)->type, (*variable)->element_bytes, 0,
                     own_objects(held->second, request.box)};
  // Whether what is here covers the box is not known here.
  const bool exact = request.choice == VersionChoice::exact;
  found.step = versions.withheld_beside(request.choice, request.version,
                                        exact ? std::nullopt : std::optional(held->first));
  std::vector<std::uint64_t> numbers;
  for (const StoredObject& object : found.objects) numbers.push_back(object.object);
  found.lease = reads_.grant(client, request_id, numbers);
  numbers.clear();
  held->second.find_entries(request.box, numbers);
  for (const std::uint64_t number : numbers) {
    const IndexEntry& entry = entries_.at(number);
    const ObjectId& id = entry.where.id;
    found.objects.push_back({id.primary, id.object, entry.box, 0, {}});
  }
  return Answer(std::move(found));
}

Result<std::vector<LeasedObject>> ObjectStore::lease(ClientConnection client,
                                                     const std::string& name, std::int64_t version,
                                                     std::span<const std::uint64_t> objects,
                                                     std::uint64_t& lease, RequestId request_id) {
  if (Status status = reads_.check(client); !status) return status.error();
  const HeldVariable* variable = variables_.find(name);
  if (variable != nullptr && variable->versions.was_discarded(version)) {
    return discarded(name, *variable, version);
  }
  std::vector<LeasedObject> answers;
  std::vector<std::uint64_t> here;
  for (const std::uint64_t number : objects) {
    const auto found = objects_.find(number);
    LeasedObject answer;
    if (found != objects_.end() && found->second.variable == name &&
        found->second.version == version) {
      answer.state =
          found->second.order > 0 ? LeasedObject::State::here : LeasedObject::State::begun;
      answer.order = found->second.order;
      answer.step = found->second.withheld ? found->second.step : 0;
      answer.range = residency_.range(number);
      answer.checksum = found->second.checksum;
    }
    if (answer.state == LeasedObject::State::here) here.push_back(number);
    answers.push_back(answer);
  }
  lease = reads_.grant(client, request_id, std::move(here));
  return answers;
}

void ObjectStore::ended(const Move& move, const Status& status) {
  residency_.ended(move, status);
  if (move.kind == Move::Kind::in) changes_.insert("");
}

std::vector<VariableInfo> ObjectStore::list() const {
  std::vector<VariableInfo> all;
  for (const std::string& name : names_from({}, SIZE_MAX)) all.push_back(*info(name));
  return all;
}

}  // namespace tranship::staging
