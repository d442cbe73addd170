#include "staging/server/object_store.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace tranship::staging {
namespace {

/// Objects of which owners have said that they know them no longer: what asks for one later than so
/// many others takes it for one that never came, and its owners for what became of it.
constexpr std::size_t forgotten_max = 4096;
/// Strays that wait to be told, and entries that may become some.
constexpr std::size_t guests_max = 1 << 16;

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
      places_({options_.memory_bytes, options_.segment_bytes,
               options_.full == Full::spill ? options_.spill_bytes : 0, options_.make_segment,
               options_.take_pages}),
      deletions_(options_.servers) {}

std::set<std::string> ObjectStore::take_changes() {
  if (places_.take_freed()) changes_.insert("");
  return std::exchange(changes_, {});
}

Result<ObjectStore::Variable*> ObjectStore::variable_for(const PutRequest& request) {
  if (Status status = check_element(request); !status) return status.error();
  auto found = variables_.find(request.variable);
  if (found != variables_.end() && found->second.life < request.life.life) {
    erase_variable(found);  // it was deleted, and whoever did has died before he said so here
    found = variables_.end();
  }
  if (found == variables_.end()) return make_variable(request);
  Variable& variable = found->second;
  if (variable.life != request.life.life) {
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
  made.life = request.life.life;
  made.type = request.type;
  made.element_bytes = request.element_bytes;
  made.rank = request.box.rank;
  return &variables_.emplace(request.variable, std::move(made)).first->second;
}

/// What a put or an entry adds must have room beside what is there.
Status ObjectStore::check_limits(Owner owner, const Variable& variable,
                                 std::int64_t version) const {
  const Limits& limits = options_.limits;
  if (std::ssize(objects_) + std::ssize(entered_) >= limits.boxes) {
    return limit_reached("the boxes that the server knows are", limits.boxes, "staging_boxes");
  }
  const Leases::Holdings* holdings = leases_.holdings(owner);
  if (holdings != nullptr &&
      std::ssize(holdings->rooms) + std::ssize(holdings->entries) >= limits.client_puts) {
    return limit_reached("the puts that this client has under way are", limits.client_puts,
                         "staging_puts");
  }
  const auto held = variable.versions.find(version);
  if (held == variable.versions.end()) return {};
  const std::int64_t boxes = std::ssize(held->second.entered) + held->second.pending +
                             static_cast<std::int64_t>(held->second.index.size());
  if (boxes < limits.version_boxes) return {};
  return limit_reached("the boxes of one version are", limits.version_boxes,
                       "staging_version_boxes");
}

Status ObjectStore::check_leases(Owner owner) const {
  const Leases::Holdings* holdings = leases_.holdings(owner);
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

Result<std::variant<Begun, Waiting>> ObjectStore::begin(Owner owner, const PutRequest& request,
                                                        const Asking& asking) {
  auto variable = variable_for(request);
  if (!variable) return variable.error();
  const std::uint64_t number = ++last_object_;
  const Status allowed = check_limits(owner, **variable, request.version);
  auto room = allowed ? make_room(request, number, asking)
                      : Result<std::variant<Range, Waiting>>(allowed.error());
  if (!room || std::holds_alternative<Waiting>(*room)) {
    drop_if_unused(request.variable, request.version);
    if (!room) return room.error();
    return std::variant<Begun, Waiting>(std::get<Waiting>(*room));
  }
  Object object;
  object.variable = request.variable;
  object.version = request.version;
  object.box = request.box;
  const Begun begun{number, std::get<Range>(*room)};
  object.bytes = begun.range.bytes;
  object.owner = owner;
  object.owners = asking.owners;
  objects_.emplace(number, std::move(object));
  ++(*variable)->versions[request.version].pending;
  leases_.add_room(owner, number, asking.ticket);
  return std::variant<Begun, Waiting>(begun);
}

Result<std::variant<Range, Waiting>> ObjectStore::make_room(const PutRequest& request,
                                                            std::uint64_t object,
                                                            const Asking& asking) {
  const Effort effort = asking.effort;
  const std::int64_t bytes = request.box.points() * request.element_bytes;
  const bool discards = options_.full == Full::discard_oldest && effort != Effort::guest;
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
    const auto placed = places_.place(object, bytes, asking.ready);
    if (placed && *placed) return std::variant<Range, Waiting>(places_.range(object));
    const bool helps = placed || places_.could_hold(bytes);
    if (helps && discards && discard_oldest(request)) continue;
    if (helps && spills && places_.let_go(bytes)) continue;
    if (!placed && last && !places_.leaving()) return no_memory(bytes, placed.error());
    if (!placed) return std::variant<Range, Waiting>(Waiting{placed.error().text()});
    // What is there is free, and yet too small in each piece: nothing will ever change that.
    if (places_.empty() && last) return refusal(" in pieces that are smaller");
    return std::variant<Range, Waiting>(Waiting{why_full()});
  }
}

std::string ObjectStore::why_full() const {
  if (fenced_bytes_ == 0) return places_.why_full();
  return places_.why_full() + "; " + std::to_string(fenced_bytes_) +
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
  const std::int64_t used_before = places_.memory_bytes_used();
  discard_version(object.variable, variables_.at(object.variable), object.version);
  return places_.memory_bytes_used() < used_before;
}

/// Null unless the owner has begun the object, and not ended it.
ObjectStore::Object* ObjectStore::begun_by(Owner owner, std::uint64_t number) {
  const auto found = objects_.find(number);
  if (found == objects_.end()) return nullptr;
  Object& object = found->second;
  return object.owner == owner && object.order == 0 ? &object : nullptr;
}

Status ObjectStore::take_pages(Owner owner, std::uint64_t number) {
  const Object* object = begun_by(owner, number);
  if (object == nullptr) {
    return Error{ErrorCode::not_found, "there is no such object to write"};
  }
  const Status status = places_.take_pages(number);
  return status ? status : no_memory(object->bytes, status.error());
}

Result<std::uint64_t> ObjectStore::commit(Owner owner, std::uint64_t number,
                                          std::uint64_t order_before, const Checksum& checksum) {
  Object* begun = begun_by(owner, number);
  if (begun == nullptr) {
    return Error{ErrorCode::not_found, "there is no such object to commit"};
  }
  Object& object = *begun;
  if (!places_.has_pages(number)) {
    return Error{ErrorCode::invalid_argument, "an object whose memory has no pages is not whole"};
  }
  leases_.remove_room(owner, number);
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
  places_.may_leave(number, object.order);
  if (!variable.bounds) variable.bounds = object.box;
  *variable.bounds = around(*variable.bounds, object.box);
  changes_.insert(object.variable);
  const std::uint64_t order = object.order;
  const std::string name = object.variable;
  keep_to_versions(name, variable);
  return order;
}

Status ObjectStore::abort(Owner owner, std::uint64_t number) {
  if (begun_by(owner, number) == nullptr) {
    return Error{ErrorCode::not_found, "there is no such object to give up"};
  }
  leases_.remove_room(owner, number);
  give_up(number);
  places_.drop(number);
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

Result<std::uint64_t> ObjectStore::index(Owner owner, const PutRequest& request,
                                         const Elsewhere& where) {
  if (entry_of(request.variable, request.version, where.at) != nullptr) {
    return Error{ErrorCode::invalid_argument, "this object was entered before"};
  }
  auto variable = variable_for(request);
  if (!variable) return variable.error();
  Status allowed = check_limits(owner, **variable, request.version);
  if (allowed && where.guest && guests_ + orphans_.size() >= guests_max) {
    allowed = Error{ErrorCode::out_of_memory, "too many objects lie on servers that only help out",
                    "keep fewer versions, or "
                    "give the servers more memory"};
  }
  if (!allowed) {
    drop_if_unused(request.variable, request.version);
    return allowed.error();
  }
  guests_ += where.guest ? 1 : 0;
  Version& version = (*variable)->versions[request.version];
  const std::uint64_t number = ++last_object_;
  version.entered.emplace(where.at, number);
  version.elsewhere.add(number, request.box);
  ++version.pending;
  entered_.emplace(number, Entered{where, request.box, owner, Entry::pending, request.variable,
                                   request.version});
  leases_.add_entry(owner, number);
  changes_.insert(request.variable);
  return order_;
}

/// Null if there is none.
ObjectStore::Entered* ObjectStore::entry_of(const std::string& name, std::int64_t version,
                                            const ObjectAt& object) {
  const auto variable = variables_.find(name);
  if (variable == variables_.end()) return nullptr;
  const auto held = variable->second.versions.find(version);
  if (held == variable->second.versions.end()) return nullptr;
  const auto entered = held->second.entered.find(object);
  return entered == held->second.entered.end() ? nullptr : &entered_.at(entered->second);
}

void ObjectStore::unindex(Owner owner, const std::string& name, std::int64_t number,
                          const ObjectAt& object) {
  Entered* entry = entry_of(name, number, object);
  if (entry == nullptr || entry->state == Entry::confirmed) return;
  if (entry->state == Entry::pending && entry->owner != owner) return;
  Variable& variable = variables_.at(name);
  Version& version = variable.versions.at(number);
  const std::uint64_t key = version.entered.at(object);
  if (entry->state == Entry::pending) {
    leases_.remove_entry(owner, key);
    --version.pending;
  }
  guests_ -= entry->where.guest ? 1 : 0;
  version.elsewhere.remove(key, entry->box);
  version.entered.erase(object);
  entered_.erase(key);
  changes_.insert(name);
  keep_to_versions(name, variable);
  drop_if_unused(name, number);
}

void ObjectStore::confirm(Owner owner, const std::string& name, std::int64_t number,
                          const ObjectAt& object, std::uint64_t order) {
  order_ = std::max(order_, order);
  Entered* entry = entry_of(name, number, object);
  if (entry == nullptr || entry->state == Entry::confirmed) return;
  if (entry->state == Entry::pending && entry->owner != owner) return;
  Variable& variable = variables_.at(name);
  Version& version = variable.versions.at(number);
  if (entry->state == Entry::pending) {
    leases_.remove_entry(owner, version.entered.at(object));
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
    leases_.each_room([&](const Leases::Room& room) {
      Object& object = objects_.at(room.object);
      if (object.variable == name && object.version == version) object.discarded = true;
    });
  }
  for (const auto& [where, number] : held->second.entered) {
    const Entered& entry = entered_.at(number);
    if (entry.where.guest) {
      orphans_.push_back({where.home, where.object});
      --guests_;
    }
    if (entry.state == Entry::pending) leases_.remove_entry(entry.owner, number);
    entered_.erase(number);
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
  // What was made after the deletion is another variable of that name, unless no keeper can have
  // counted so far meanwhile.
  const std::uint64_t life = found->second.life;
  if (life > number && life - number < std::uint64_t{1} << 32) return false;
  erase_variable(found);
  return true;
}

std::vector<Orphan> ObjectStore::take_orphans(std::size_t count_max) {
  const auto count = static_cast<std::ptrdiff_t>(std::min(count_max, orphans_.size()));
  std::vector<Orphan> taken(orphans_.end() - count, orphans_.end());
  orphans_.resize(orphans_.size() - taken.size());
  return taken;
}

void ObjectStore::drop_orphan(std::uint64_t number, int owner) {
  const auto found = objects_.find(number);
  if (found == objects_.end() || found->second.discarded) return;
  Object& object = found->second;
  if (std::erase(object.owners, owner) == 0 || !object.owners.empty()) return;
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
  places_.drop(number);
  objects_.erase(number);
}

Status ObjectStore::release(Owner owner, std::uint64_t lease) {
  if (leases_.find(owner, lease) == nullptr) return no_lease();
  end_lease(lease);
  return {};
}

/// Nothing of the lease has to be in memory any more.
void ObjectStore::loosen(Lease& lease) {
  for (const std::uint64_t number : std::exchange(lease.pinned, {})) places_.unpin(number);
  if (lease.wanted != 0) places_.unwant(std::exchange(lease.wanted, 0));
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

std::vector<std::uint64_t> ObjectStore::undo(Owner owner, Ticket ticket) {
  const Leases::Holdings* holdings = leases_.holdings(owner);
  if (ticket == 0 || holdings == nullptr || holdings->lost) return {};
  for (const Leases::Room& room : std::vector(holdings->rooms)) {
    if (room.ticket == ticket) (void)abort(owner, room.object);
  }
  std::vector<std::uint64_t> ended;
  for (const std::uint64_t lease : holdings->leases) {
    if (leases_.at(lease).ticket == ticket) ended.push_back(lease);
  }
  for (const std::uint64_t lease : ended) end_lease(lease);
  return ended;
}

void ObjectStore::lost(Owner owner) {
  for (const Leases::Room& room : leases_.fence(owner)) {
    fenced_bytes_ += objects_.at(room.object).bytes;
    give_up(room.object);
  }
  const Leases::Holdings* holdings = leases_.holdings(owner);
  if (holdings == nullptr) return;
  // It may still read what lies in memory for it, and nothing else.
  for (const std::uint64_t number : holdings->leases) {
    Lease& lease = leases_.at(number);
    if (lease.wanted != 0) places_.unwant(std::exchange(lease.wanted, 0));
    for (const std::uint64_t object : std::exchange(lease.objects, lease.pinned)) {
      const auto& kept = lease.pinned;
      if (std::find(kept.begin(), kept.end(), object) == kept.end()) let_go(object);
    }
  }
  for (const std::uint64_t number : leases_.take_entries(owner)) {
    Entered& entry = entered_.at(number);
    entry.state = Entry::doubtful;
    Variable& variable = variables_.at(entry.variable);
    --variable.versions.at(entry.version).pending;
    changes_.insert(entry.variable);
    const std::string name = entry.variable;
    keep_to_versions(name, variable);
  }
}

void ObjectStore::gone(Owner owner) {
  lost(owner);
  if (const Leases::Holdings* holdings = leases_.holdings(owner)) {
    for (const std::uint64_t lease : std::vector(holdings->leases)) end_lease(lease);
  }
  for (const std::uint64_t number : leases_.end(owner)) {
    fenced_bytes_ -= places_.range(number).bytes;
    places_.drop(number);
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
