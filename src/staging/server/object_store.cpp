#include "staging/server/object_store.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace tranship::staging {
namespace {

/// Objects of which owners have said that they know them no longer: what asks for one later than so
/// many others takes it for one that never came, and its owners for what became of it.
constexpr std::size_t forgotten_max = 4096;
/// Orphans that wait to be reported, and entries that may become orphans.
constexpr std::size_t overflow_entries_max = 1 << 16;

Error no_memory(std::int64_t bytes, const Error& why) {
  return {ErrorCode::out_of_memory,
          "the server's machine has no memory for an object of " + std::to_string(bytes) +
              " bytes: " + why.text(),
          "free some there, or start the server with a smaller "
          "--memory, and more servers on other machines"};
}

}  // namespace

ObjectStore::ObjectStore(Options options)
    : options_(std::move(options)),
      residency_({options_.memory_bytes, options_.segment_bytes,
                  options_.full == Full::spill ? options_.spill_bytes : 0, options_.make_segment,
                  options_.take_pages}),
      deletions_(options_.servers) {}

std::set<std::string> ObjectStore::take_changes() {
  if (residency_.take_freed()) changes_.insert("");
  return std::exchange(changes_, {});
}

Result<ObjectStore::Variable*> ObjectStore::variable_for(const PutRequest& request) {
  if (Status status = check_element(request); !status) return status.error();
  auto found = variables_.find(request.variable);
  if (found != variables_.end() && found->second.incarnation < request.incarnation.number) {
    erase_variable(found);  // it was deleted, and whoever did has died before he said so here
    found = variables_.end();
  }
  if (found == variables_.end()) return make_variable(request);
  Variable& variable = found->second;
  if (variable.incarnation != request.incarnation.number) {
    return Error{ErrorCode::not_found, in_quotes(request.variable) + " is being deleted",
                 "put it again if it is to be there"};
  }
  if (Status s = check_fits(request, variable.type, variable.element_bytes, variable.rank); !s) {
    return s.error();
  }
  if (variable.was_discarded(request.version)) {
    return Error{ErrorCode::not_found,
                 version_of(request.variable, request.version) + " was discarded",
                 "put a later one, or keep more versions"};
  }
  const bool full = options_.versions_max > 0 && variable.held >= options_.versions_max;
  const auto counts = [](const auto& one) { return one.second.counts(); };
  const auto& versions = variable.versions;
  if (full && !versions.contains(request.version) &&
      request.version < std::find_if(versions.begin(), versions.end(), counts)->first) {
    return Error{ErrorCode::not_found, version_of(request.variable, request.version) +
                                           " is older than the versions that are kept, of which " +
                                           "there may be " + std::to_string(options_.versions_max)};
  }
  return &variable;
}

/// The first put decides what a variable is.
Result<ObjectStore::Variable*> ObjectStore::make_variable(const PutRequest& request) {
  if (Status s = check_name(request.variable, options_.limits.name_bytes); !s) return s.error();
  const std::int64_t limit = options_.limits.variables;
  if (std::ssize(variables_) >= limit) {
    return limit_reached("the variables that the server knows are", limit, "staging_variables");
  }
  Variable made(static_cast<std::size_t>(options_.limits.versions_remembered));
  made.incarnation = request.incarnation.number;
  made.type = request.type;
  made.element_bytes = request.element_bytes;
  made.rank = request.box.rank;
  return &variables_.emplace(request.variable, std::move(made)).first->second;
}

/// What a put or an entry adds must have room beside what is there.
Status ObjectStore::check_limits(ClientConnection client, const Variable& variable,
                                 std::int64_t version) const {
  const Limits& limits = options_.limits;
  if (std::ssize(objects_) + std::ssize(index_entries_) >= limits.boxes) {
    return limit_reached("the boxes that the server knows are", limits.boxes, "staging_boxes");
  }
  const Leases::Holdings* holdings = leases_.holdings(client);
  if (holdings != nullptr &&
      std::ssize(holdings->rooms) + std::ssize(holdings->entries) >= limits.client_puts) {
    return limit_reached("the puts that this client has under way are", limits.client_puts,
                         "staging_puts");
  }
  const auto held = variable.versions.find(version);
  if (held == variable.versions.end()) return {};
  const std::int64_t boxes = std::ssize(held->second.entry_numbers) + held->second.pending +
                             static_cast<std::int64_t>(held->second.index.size());
  if (boxes < limits.version_boxes) return {};
  return limit_reached("the boxes of one version are", limits.version_boxes,
                       "staging_version_boxes");
}

Status ObjectStore::check_leases(ClientConnection client) const {
  const Leases::Holdings* holdings = leases_.holdings(client);
  const std::int64_t limit = options_.limits.client_leases;
  if (holdings == nullptr || holdings->leases.empty()) return {};
  const std::int64_t begin_ns = leases_.at(holdings->leases.front()).begin_ns;
  const std::int64_t lease_s = options_.limits.lease_s;
  if (options_.now_ns && (options_.now_ns() - begin_ns) / 1'000'000'000 >= lease_s) {
    return limit_reached("the seconds for which a get of this client has been reading are at least",
                         lease_s, "staging_lease_s");
  }
  if (std::ssize(holdings->leases) < limit) return {};
  return limit_reached("the gets whose data this client reads are", limit, "staging_leases");
}

Result<std::variant<GrantedRoom, Waiting>> ObjectStore::begin(ClientConnection client,
                                                              const PutRequest& request,
                                                              const RoomRequest& asking) {
  auto variable = variable_for(request);
  if (!variable) return variable.error();
  const std::uint64_t number = ++last_object_;
  const Status allowed = check_limits(client, **variable, request.version);
  auto room = allowed ? make_room(request, number, asking)
                      : Result<std::variant<Range, Waiting>>(allowed.error());
  if (!room || std::holds_alternative<Waiting>(*room)) {
    drop_if_unused(request.variable, request.version);
    if (!room) return room.error();
    return std::variant<GrantedRoom, Waiting>(std::get<Waiting>(*room));
  }
  Object object;
  object.variable = request.variable;
  object.version = request.version;
  object.box = request.box;
  const GrantedRoom begun{number, std::get<Range>(*room)};
  object.bytes = begun.range.bytes;
  object.client = client;
  object.index_servers = asking.index_servers;
  objects_.emplace(number, std::move(object));
  ++(*variable)->versions[request.version].pending;
  leases_.add_room(client, number, asking.request_id);
  return std::variant<GrantedRoom, Waiting>(begun);
}

Result<std::variant<Range, Waiting>> ObjectStore::make_room(const PutRequest& request,
                                                            std::uint64_t object,
                                                            const RoomRequest& asking) {
  const Effort effort = asking.effort;
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
    const auto placed = residency_.place(object, bytes, asking.ready);
    if (placed && *placed) return std::variant<Range, Waiting>(residency_.range(object));
    const bool helps = placed || residency_.could_hold(bytes);
    if (helps && discards && discard_oldest(request)) continue;
    if (helps && spills && residency_.let_go(bytes)) continue;
    if (!placed && last && !residency_.leaving()) return no_memory(bytes, placed.error());
    if (!placed) return std::variant<Range, Waiting>(Waiting{placed.error().text()});
    // What is there is free, and yet too small in each piece: nothing will ever change that.
    if (residency_.empty() && last) return refusal(" in pieces that are smaller");
    return std::variant<Range, Waiting>(Waiting{why_full()});
  }
}

std::string ObjectStore::why_full() const {
  if (fenced_bytes_ == 0) return residency_.why_full();
  return residency_.why_full() + "; " + std::to_string(fenced_bytes_) +
         " bytes of it may still be written by clients whose connections were lost";
}

/// Discards the version whose first object is the oldest, if there is one that may go.
bool ObjectStore::discard_oldest(const PutRequest& but_this) {
  std::uint64_t oldest = 0;
  std::uint64_t order = UINT64_MAX;
  for (const auto& [number, object] : objects_) {
    const bool same = object.variable == but_this.variable && object.version == but_this.version;
    if (object.order == 0 || object.discarded || object.leases > 0 || same) continue;
    if (variables_.at(object.variable).versions.at(object.version).pending > 0) continue;
    if (object.order < order) oldest = number;
    order = std::min(order, object.order);
  }
  if (oldest == 0) return false;
  const Object object = objects_.at(oldest);
  const std::int64_t used_before = residency_.memory_bytes_used();
  discard_version(object.variable, variables_.at(object.variable), object.version);
  return residency_.memory_bytes_used() < used_before;
}

/// Null unless the owner has begun the object, and not ended it.
ObjectStore::Object* ObjectStore::begun_by(ClientConnection client, std::uint64_t number) {
  const auto found = objects_.find(number);
  if (found == objects_.end()) return nullptr;
  Object& object = found->second;
  return object.client == client && object.order == 0 ? &object : nullptr;
}

Status ObjectStore::take_pages(ClientConnection client, std::uint64_t number) {
  const Object* object = begun_by(client, number);
  if (object == nullptr) {
    return Error{ErrorCode::not_found, "there is no such object to write"};
  }
  const Status status = residency_.take_pages(number);
  return status ? status : no_memory(object->bytes, status.error());
}

Result<std::uint64_t> ObjectStore::commit(ClientConnection client, std::uint64_t number,
                                          std::uint64_t order_before, const Checksum& checksum) {
  Object* begun = begun_by(client, number);
  if (begun == nullptr) {
    return Error{ErrorCode::not_found, "there is no such object to commit"};
  }
  Object& object = *begun;
  if (!residency_.has_pages(number)) {
    return Error{ErrorCode::invalid_argument, "an object whose memory has no pages is not whole"};
  }
  leases_.remove_room(client, number);
  if (object.discarded) {
    Error why{ErrorCode::not_found,
              version_of(object.variable, object.version) + " was discarded while it was put"};
    drop(number);
    return why;
  }
  Variable& variable = variables_.at(object.variable);
  Version& version = variable.versions.at(object.version);
  order_ = std::max(order_, order_before) + 1;
  object.order = order_;
  object.checksum = checksum;
  --version.pending;
  variable.held += version.counts() ? 0 : 1;
  version.index.add(number, object.box);
  version.bytes += object.bytes;
  residency_.may_leave(number, object.order);
  if (!variable.bounds) variable.bounds = object.box;
  *variable.bounds = around(*variable.bounds, object.box);
  changes_.insert(object.variable);
  const std::uint64_t order = object.order;
  const std::string name = object.variable;
  keep_to_versions(name, variable);
  return order;
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

/// Nobody will commit the object. Its memory is another matter.
void ObjectStore::give_up(std::uint64_t number) {
  const Object object = std::move(objects_.at(number));
  objects_.erase(number);
  changes_.insert(object.variable);  // whoever waits for it elsewhere looks again
  if (object.discarded) return;
  Variable& variable = variables_.at(object.variable);
  --variable.versions.at(object.version).pending;
  keep_to_versions(object.variable, variable);
  drop_if_unused(object.variable, object.version);
}

Result<std::uint64_t> ObjectStore::index(ClientConnection client, const PutRequest& request,
                                         const RemoteObject& where) {
  if (entry_of(request.variable, request.version, where.id) != nullptr) {
    return Error{ErrorCode::invalid_argument, "this object was entered before"};
  }
  auto variable = variable_for(request);
  if (!variable) return variable.error();
  Status allowed = check_limits(client, **variable, request.version);
  if (allowed && where.overflow && overflow_entries_ + orphans_.size() >= overflow_entries_max) {
    allowed = Error{ErrorCode::out_of_memory, "too many objects lie on servers that only help out",
                    "keep fewer versions, or "
                    "give the servers more memory"};
  }
  if (!allowed) {
    drop_if_unused(request.variable, request.version);
    return allowed.error();
  }
  overflow_entries_ += where.overflow ? 1 : 0;
  Version& version = (*variable)->versions[request.version];
  const std::uint64_t number = ++last_object_;
  version.entry_numbers.emplace(where.id, number);
  version.elsewhere.add(number, request.box);
  ++version.pending;
  index_entries_.emplace(number, IndexEntry{where, request.box, client, Entry::pending,
                                            request.variable, request.version});
  leases_.add_entry(client, number);
  changes_.insert(request.variable);
  return order_;
}

/// Null if there is none.
ObjectStore::IndexEntry* ObjectStore::entry_of(const std::string& name, std::int64_t version,
                                               const ObjectId& object) {
  const auto variable = variables_.find(name);
  if (variable == variables_.end()) return nullptr;
  const auto held = variable->second.versions.find(version);
  if (held == variable->second.versions.end()) return nullptr;
  const auto entry_numbers = held->second.entry_numbers.find(object);
  return entry_numbers == held->second.entry_numbers.end()
             ? nullptr
             : &index_entries_.at(entry_numbers->second);
}

void ObjectStore::unindex(ClientConnection client, const std::string& name, std::int64_t number,
                          const ObjectId& object) {
  IndexEntry* entry = entry_of(name, number, object);
  if (entry == nullptr || entry->state == Entry::confirmed) return;
  if (entry->state == Entry::pending && entry->client != client) return;
  Variable& variable = variables_.at(name);
  Version& version = variable.versions.at(number);
  const std::uint64_t key = version.entry_numbers.at(object);
  if (entry->state == Entry::pending) {
    leases_.remove_entry(client, key);
    --version.pending;
  }
  overflow_entries_ -= entry->where.overflow ? 1 : 0;
  version.elsewhere.remove(key, entry->box);
  version.entry_numbers.erase(object);
  index_entries_.erase(key);
  changes_.insert(name);
  keep_to_versions(name, variable);
  drop_if_unused(name, number);
}

void ObjectStore::confirm(ClientConnection client, const std::string& name, std::int64_t number,
                          const ObjectId& object, std::uint64_t order) {
  order_ = std::max(order_, order);
  IndexEntry* entry = entry_of(name, number, object);
  if (entry == nullptr || entry->state == Entry::confirmed) return;
  if (entry->state == Entry::pending && entry->client != client) return;
  Variable& variable = variables_.at(name);
  Version& version = variable.versions.at(number);
  if (entry->state == Entry::pending) {
    leases_.remove_entry(client, version.entry_numbers.at(object));
    --version.pending;
  }
  entry->state = Entry::confirmed;
  variable.held += version.counts() ? 0 : 1;
  ++version.confirmed;
  keep_to_versions(name, variable);
}

/// Forgets a version of which nothing is there, and a variable of which nothing ever was.
void ObjectStore::drop_if_unused(const std::string& name, std::int64_t version) {
  const auto found = variables_.find(name);
  Variable& variable = found->second;
  const auto held = variable.versions.find(version);
  if (held != variable.versions.end() && held->second.unused()) variable.versions.erase(held);
  const bool empty = variable.versions.empty() && variable.discarded.empty();
  if (empty && !variable.bounds) variables_.erase(found);
}

void ObjectStore::keep_to_versions(const std::string& name, Variable& variable) {
  if (options_.versions_max == 0) return;
  for (auto one = variable.versions.begin(); variable.held > options_.versions_max;) {
    const std::int64_t version = one->first;
    if (one->second.pending > 0) return;  // it goes when its last object has come
    ++one;
    discard_version(name, variable, version);
  }
}

void ObjectStore::discard_version(const std::string& name, Variable& variable,
                                  std::int64_t version) {
  take_out(name, variable, version);
  variable.discarded.insert(version);
  if (options_.on_discard) options_.on_discard(name, version);
}

/// The version is there no more, and what is being written to it cannot be committed.
void ObjectStore::take_out(const std::string& name, Variable& variable, std::int64_t version) {
  std::vector<std::uint64_t> numbers;
  const auto held = variable.versions.find(version);
  held->second.index.all(numbers);
  for (const std::uint64_t number : numbers) {
    Object& object = objects_.at(number);
    object.discarded = true;
    if (object.leases == 0) drop(number);
  }
  if (held->second.pending > 0) {
    leases_.each_room([&](const Leases::RoomGrant& room) {
      Object& object = objects_.at(room.object);
      if (object.variable == name && object.version == version) object.discarded = true;
    });
  }
  for (const auto& [where, number] : held->second.entry_numbers) {
    const IndexEntry& entry = index_entries_.at(number);
    if (entry.where.overflow) {
      orphans_.push_back({where.primary, where.object});
      --overflow_entries_;
    }
    if (entry.state == Entry::pending) leases_.remove_entry(entry.client, number);
    index_entries_.erase(number);
  }
  variable.held -= held->second.counts() ? 1 : 0;
  variable.versions.erase(held);
  changes_.insert(name);
}

void ObjectStore::erase_variable(ByName<Variable>::Map::iterator found) {
  const std::string name = found->first;
  auto& versions = found->second.versions;
  while (!versions.empty()) {
    const std::int64_t version = versions.begin()->first;
    take_out(name, found->second, version);
    if (options_.on_discard) options_.on_discard(name, version);
  }
  changes_.insert(name);
  variables_.erase(found);
}

bool ObjectStore::remove(const std::string& name, std::uint64_t number) {
  deletions_.add(name, number);
  const auto found = variables_.find(name);
  if (found == variables_.end()) return false;
  // What was made after the deletion is another variable of that name, unless no metadata server
  // can have counted so far meanwhile.
  const std::uint64_t incarnation = found->second.incarnation;
  if (incarnation > number && incarnation - number < std::uint64_t{1} << 32) return false;
  erase_variable(found);
  return true;
}

std::vector<Orphan> ObjectStore::take_orphans(std::size_t count_max) {
  const auto count = static_cast<std::ptrdiff_t>(std::min(count_max, orphans_.size()));
  std::vector<Orphan> taken(orphans_.end() - count, orphans_.end());
  orphans_.resize(orphans_.size() - taken.size());
  return taken;
}

void ObjectStore::drop_orphan(std::uint64_t number, int index_server) {
  const auto found = objects_.find(number);
  if (found == objects_.end() || found->second.discarded) return;
  Object& object = found->second;
  if (std::erase(object.index_servers, index_server) == 0 || !object.index_servers.empty()) return;
  object.discarded = true;
  Variable& variable = variables_.at(object.variable);
  forgotten_.insert(number);
  if (forgotten_.size() > forgotten_max) forgotten_.erase(forgotten_.begin());
  Version& version = variable.versions.at(object.version);
  if (object.order == 0) {
    --version.pending;  // its commit fails
  } else {
    version.index.remove(number, object.box);
    version.bytes -= object.bytes;
    variable.held -= version.counts() ? 0 : 1;
  }
  changes_.insert(object.variable);
  drop_if_unused(object.variable, object.version);
  if (object.order > 0 && object.leases == 0) drop(number);
}

Status ObjectStore::discard(const std::string& name, std::int64_t version) {
  const auto found = variables_.find(name);
  if (found == variables_.end() || !found->second.versions.contains(version)) {
    return Error{ErrorCode::not_found, "there is no " + version_of(name, version)};
  }
  discard_version(name, found->second, version);
  return {};
}

void ObjectStore::drop(std::uint64_t number) {
  residency_.drop(number);
  objects_.erase(number);
}

Status ObjectStore::release(ClientConnection client, std::uint64_t lease) {
  if (leases_.find(client, lease) == nullptr) return no_lease();
  end_lease(lease);
  return {};
}

/// Nothing of the lease has to be in memory any more.
void ObjectStore::loosen(Lease& lease) {
  for (const std::uint64_t number : std::exchange(lease.pinned, {})) residency_.unpin(number);
  if (lease.wanted != 0) residency_.unwant(std::exchange(lease.wanted, 0));
}

void ObjectStore::end_lease(std::uint64_t number) {
  Lease lease = leases_.remove(number);
  loosen(lease);
  for (const std::uint64_t object : lease.objects) let_go(object);
}

/// One lease less keeps the object.
void ObjectStore::let_go(std::uint64_t number) {
  Object& object = objects_.at(number);
  if (--object.leases > 0) return;
  if (object.discarded) {
    drop(number);
  } else {
    changes_.insert("");  // it could make room now
  }
}

std::vector<std::uint64_t> ObjectStore::undo(ClientConnection client, RequestId request_id) {
  const Leases::Holdings* holdings = leases_.holdings(client);
  if (request_id == 0 || holdings == nullptr || holdings->lost) return {};
  for (const Leases::RoomGrant& room : std::vector(holdings->rooms)) {
    if (room.request_id == request_id) (void)abort(client, room.object);
  }
  std::vector<std::uint64_t> ended;
  for (const std::uint64_t lease : holdings->leases) {
    if (leases_.at(lease).request_id == request_id) ended.push_back(lease);
  }
  for (const std::uint64_t lease : ended) end_lease(lease);
  return ended;
}

void ObjectStore::lost(ClientConnection client) {
  for (const Leases::RoomGrant& room : leases_.fence(client)) {
    fenced_bytes_ += objects_.at(room.object).bytes;
    give_up(room.object);
  }
  const Leases::Holdings* holdings = leases_.holdings(client);
  if (holdings == nullptr) return;
  // It may still read what lies in memory for it, and nothing else.
  for (const std::uint64_t number : holdings->leases) {
    Lease& lease = leases_.at(number);
    if (lease.wanted != 0) residency_.unwant(std::exchange(lease.wanted, 0));
    for (const std::uint64_t object : std::exchange(lease.objects, lease.pinned)) {
      const auto& kept = lease.pinned;
      if (std::find(kept.begin(), kept.end(), object) == kept.end()) let_go(object);
    }
  }
  for (const std::uint64_t number : leases_.take_entries(client)) {
    IndexEntry& entry = index_entries_.at(number);
    entry.state = Entry::doubtful;
    Variable& variable = variables_.at(entry.variable);
    --variable.versions.at(entry.version).pending;
    changes_.insert(entry.variable);
    const std::string name = entry.variable;
    keep_to_versions(name, variable);
  }
}

void ObjectStore::gone(ClientConnection client) {
  lost(client);
  if (const Leases::Holdings* holdings = leases_.holdings(client)) {
    for (const std::uint64_t lease : std::vector(holdings->leases)) end_lease(lease);
  }
  for (const std::uint64_t number : leases_.end(client)) {
    fenced_bytes_ -= residency_.range(number).bytes;
    residency_.drop(number);
  }
}

std::optional<VariableInfo> ObjectStore::describe(const std::string& name) const {
  const auto found = variables_.find(name);
  if (found == variables_.end() || !found->second.bounds) return std::nullopt;
  const Variable& variable = found->second;
  return VariableInfo{name, variable.type, variable.element_bytes, *variable.bounds, {}, 0};
}

std::optional<VariableInfo> ObjectStore::info(const std::string& name,
                                              std::optional<std::int64_t> after,
                                              std::size_t versions_max) const {
  auto info = describe(name);
  if (!info) return info;
  const auto& versions = variables_.at(name).versions;
  auto one = after ? versions.upper_bound(*after) : versions.begin();
  for (; one != versions.end() && info->versions.size() < versions_max; ++one) {
    const auto objects = static_cast<std::int64_t>(one->second.index.size());
    if (objects > 0) info->versions.push_back({one->first, objects, one->second.bytes});
  }
  return info;
}

std::vector<std::string> ObjectStore::names_from(const std::string& first,
                                                 std::size_t count_max) const {
  return variables_.names_from(first, count_max,
                               [](const Variable& one) { return one.bounds.has_value(); });
}

std::vector<VariableInfo> ObjectStore::list() const {
  std::vector<VariableInfo> all;
  for (const std::string& name : names_from({}, SIZE_MAX)) all.push_back(*info(name));
  return all;
}

}  // namespace tranship::staging
