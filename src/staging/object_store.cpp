#include "staging/object_store.hpp"

#include <algorithm>

namespace tranship::staging {
namespace {

std::string version_of(const std::string& variable, std::int64_t version) {
  return "version " + std::to_string(version) + " of \"" + variable + "\"";
}

Waiting none_after(const GetRequest& request) {
  return {"there is no version of \"" + request.variable + "\" after " +
          std::to_string(request.version)};
}

Error no_memory(std::int64_t bytes, const Error& why) {
  return {ErrorCode::out_of_memory, "the server's machine has no memory for an object of " +
                                        std::to_string(bytes) + " bytes: " + why.message +
                                        "; free some there, or start the server with a smaller " +
                                        "--memory, and more servers on other machines"};
}

Error no_lease() { return {ErrorCode::not_found, "there is no such lease"}; }

Waiting none_covers(const GetRequest& request) {
  return {"no version of \"" + request.variable + "\" covers " + request.box.text()};
}

}  // namespace

Error wrong_rank(const std::string& variable, int rank, const Box& box) {
  return {ErrorCode::invalid_argument, "\"" + variable + "\" has " + std::to_string(rank) +
                                           " dimensions, and the box " + box.text() + " has " +
                                           std::to_string(box.rank)};
}

Status check_element(const PutRequest& request) {
  std::int64_t bytes = 0;
  if (request.element_bytes < 1 || request.element_bytes > 16) {
    return Error{ErrorCode::invalid_argument,
                 "elements have 1 to 16 bytes, not " + std::to_string(request.element_bytes)};
  }
  if (__builtin_mul_overflow(request.box.points(), request.element_bytes, &bytes)) {
    return Error{ErrorCode::invalid_argument,
                 "the box " + request.box.text() + " has more bytes than 63 bits count"};
  }
  return {};
}

Status check_fits(const PutRequest& request, const std::string& type, std::int64_t element_bytes,
                  int rank) {
  if (type != request.type || element_bytes != request.element_bytes) {
    return Error{ErrorCode::invalid_argument, "\"" + request.variable + "\" has elements of " +
                                                  type + ", not of " + request.type +
                                                  "; put another variable, or convert the array"};
  }
  if (rank != request.box.rank) return wrong_rank(request.variable, rank, request.box);
  return {};
}

ObjectStore::ObjectStore(Options options)
    : options_(std::move(options)),
      places_({options_.memory_bytes, options_.segment_bytes,
               options_.full == Full::spill ? options_.spill_bytes : 0, options_.make_segment}) {}

std::set<std::string> ObjectStore::take_changes() {
  if (places_.take_freed()) changes_.insert("");
  return std::exchange(changes_, {});
}

Result<ObjectStore::Variable*> ObjectStore::variable_for(const PutRequest& request) {
  if (Status status = check_element(request); !status) return status.error();
  auto found = variables_.find(request.variable);
  if (found == variables_.end()) {
    Variable made;
    made.type = request.type;
    made.element_bytes = request.element_bytes;
    made.rank = request.box.rank;
    found = variables_.emplace(request.variable, std::move(made)).first;
  }
  Variable& variable = found->second;
  if (Status s = check_fits(request, variable.type, variable.element_bytes, variable.rank); !s) {
    return s.error();
  }
  if (variable.discarded.contains(request.version)) {
    return Error{ErrorCode::not_found,
                 version_of(request.variable, request.version) +
                     " was discarded; put a later one, or keep more versions"};
  }
  const bool full = options_.versions_max > 0 && variable.held >= options_.versions_max;
  if (full && request.version < variable.versions.begin()->first) {
    return Error{ErrorCode::not_found, version_of(request.variable, request.version) +
                                           " is older than the versions that are kept, of which " +
                                           "there may be " + std::to_string(options_.versions_max)};
  }
  return &variable;
}

Result<std::variant<Begun, Waiting>> ObjectStore::begin(Owner owner, const PutRequest& request,
                                                        const Asking& asking) {
  const bool is_new = !variables_.contains(request.variable);
  auto variable = variable_for(request);
  if (!variable) return variable.error();
  const std::uint64_t number = ++last_object_;
  auto room = make_room(request, number, asking.effort);
  if (!room || std::holds_alternative<Waiting>(*room)) {
    if (is_new) variables_.erase(request.variable);
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
  object.ticket = asking.ticket;
  object.owners = asking.owners;
  objects_.emplace(number, std::move(object));
  ++(*variable)->versions[request.version].begun;
  ++begun_;
  return std::variant<Begun, Waiting>(begun);
}

Result<std::variant<Range, Waiting>> ObjectStore::make_room(const PutRequest& request,
                                                            std::uint64_t object, Effort effort) {
  const std::int64_t bytes = request.box.points() * request.element_bytes;
  const bool discards = options_.full == Full::discard_oldest && effort != Effort::guest;
  const bool spills = options_.full == Full::spill && effort == Effort::all;
  const bool last = effort == Effort::all;  // until then, other servers may have room
  const auto refusal = [&](const std::string& why) {
    return Error{ErrorCode::out_of_memory, "an object of " + std::to_string(bytes) +
                                               " bytes does not fit the server, which may take " +
                                               std::to_string(options_.memory_bytes) +
                                               " bytes of memory" + why + "; start it with more"};
  };
  if (bytes > options_.memory_bytes) return refusal("");
  while (true) {
    const auto placed = places_.place(object, bytes);
    if (placed && *placed) return std::variant<Range, Waiting>(places_.range(object));
    const bool helps = placed || places_.could_hold(bytes);
    if (helps && discards && discard_oldest(request)) continue;
    if (helps && spills && places_.let_go(bytes)) continue;
    if (!placed && last && !places_.leaving()) return no_memory(bytes, placed.error());
    if (!placed) return std::variant<Range, Waiting>(Waiting{placed.error().message});
    // What is there is free, and yet too small in each piece: nothing will ever change that.
    if (places_.empty() && last) return refusal(" in pieces that are smaller");
    return std::variant<Range, Waiting>(Waiting{places_.why_full()});
  }
}

/// Discards the version whose first object is the oldest, if there is one that may go.
bool ObjectStore::discard_oldest(const PutRequest& but_this) {
  std::uint64_t oldest = 0;
  std::uint64_t order = UINT64_MAX;
  for (const auto& [number, object] : objects_) {
    const bool same = object.variable == but_this.variable && object.version == but_this.version;
    if (object.order == 0 || object.discarded || object.leases > 0 || same) continue;
    if (variables_.at(object.variable).versions.at(object.version).begun > 0) continue;
    if (object.order < order) oldest = number;
    order = std::min(order, object.order);
  }
  if (oldest == 0) return false;
  const Object object = objects_.at(oldest);
  const std::int64_t used_before = places_.memory_bytes_used();
  discard_version(object.variable, variables_.at(object.variable), object.version);
  return places_.memory_bytes_used() < used_before;
}

Result<std::uint64_t> ObjectStore::commit(Owner owner, std::uint64_t number,
                                          std::uint64_t order_before) {
  const auto found = objects_.find(number);
  if (found == objects_.end() || found->second.owner != owner || found->second.order != 0) {
    return Error{ErrorCode::not_found, "there is no such object to commit"};
  }
  Object& object = found->second;
  Variable& variable = variables_.at(object.variable);
  --begun_;
  if (object.discarded) {
    Error why{ErrorCode::not_found,
              version_of(object.variable, object.version) + " was discarded while it was put"};
    drop(number);
    return why;
  }
  Version& version = variable.versions.at(object.version);
  order_ = std::max(order_, order_before) + 1;
  object.order = order_;
  --version.begun;
  variable.held += version.empty() ? 1 : 0;
  version.index.add(number, object.box);
  version.bytes += object.bytes;
  places_.settle(number, object.order);
  if (!variable.bounds) variable.bounds = object.box;
  *variable.bounds = around(*variable.bounds, object.box);
  changes_.insert(object.variable);
  const std::uint64_t order = object.order;
  const std::string name = object.variable;
  keep_to_versions(name, variable);
  return order;
}

Status ObjectStore::abort(Owner owner, std::uint64_t number) {
  const auto found = objects_.find(number);
  if (found == objects_.end() || found->second.owner != owner || found->second.order != 0) {
    return Error{ErrorCode::not_found, "there is no such object to give up"};
  }
  const Object& object = found->second;
  Variable& variable = variables_.at(object.variable);
  --begun_;
  if (!object.discarded) {
    --variable.versions.at(object.version).begun;
    drop_if_unused(variable, object.version);
  }
  changes_.insert(object.variable);  // whoever waits for it elsewhere looks again
  drop(number);
  return {};
}

Result<std::uint64_t> ObjectStore::enter(const PutRequest& request, int home, std::uint64_t object,
                                         bool guest) {
  auto variable = variable_for(request);
  if (!variable) return variable.error();
  Version& version = (*variable)->versions[request.version];
  const std::uint64_t number = ++last_object_;
  if (version.entered.contains({home, object})) {
    return Error{ErrorCode::invalid_argument, "this object was entered before"};
  }
  (*variable)->held += version.empty() ? 1 : 0;
  version.entered.emplace(Elsewhere{home, object}, number);
  entered_.emplace(number, Entered{{home, object}, request.box, guest});
  version.elsewhere.add(number, request.box);
  changes_.insert(request.variable);
  keep_to_versions(request.variable, **variable);
  return order_;
}

void ObjectStore::leave(const std::string& name, std::int64_t version, int home,
                        std::uint64_t object) {
  const auto variable = variables_.find(name);
  if (variable == variables_.end()) return;
  const auto held = variable->second.versions.find(version);
  if (held == variable->second.versions.end()) return;
  const auto entered = held->second.entered.find({home, object});
  if (entered == held->second.entered.end()) return;
  const std::uint64_t number = entered->second;
  held->second.elsewhere.remove(number, entered_.at(number).box);
  entered_.erase(number);
  held->second.entered.erase(entered);
  variable->second.held -= held->second.empty() ? 1 : 0;
  drop_if_unused(variable->second, version);
  changes_.insert(name);
}

void ObjectStore::drop_if_unused(Variable& variable, std::int64_t version) {
  const auto held = variable.versions.find(version);
  if (held->second.begun == 0 && held->second.empty()) variable.versions.erase(held);
}

void ObjectStore::keep_to_versions(const std::string& name, Variable& variable) {
  if (options_.versions_max == 0) return;
  for (auto one = variable.versions.begin(); variable.held > options_.versions_max;) {
    const std::int64_t version = one->first;
    const bool holds_any = !one->second.empty();
    if (one->second.begun > 0) return;  // it goes when its last object has come
    ++one;
    if (holds_any) discard_version(name, variable, version);
  }
}

void ObjectStore::discard_version(const std::string& name, Variable& variable,
                                  std::int64_t version) {
  std::vector<std::uint64_t> numbers;
  const auto held = variable.versions.find(version);
  held->second.index.all(numbers);
  for (const std::uint64_t number : numbers) {
    Object& object = objects_.at(number);
    object.discarded = true;
    if (object.leases == 0) drop(number);
  }
  if (held->second.begun > 0) {
    for (auto& [number, object] : objects_) {
      if (object.order == 0 && object.variable == name && object.version == version) {
        object.discarded = true;
      }
    }
  }
  for (const auto& [where, number] : held->second.entered) {
    if (entered_.at(number).guest) strays_.push_back({where.first, where.second});
    entered_.erase(number);
  }
  variable.held -= held->second.empty() ? 0 : 1;
  variable.versions.erase(held);
  variable.discarded.insert(version);
  if (options_.on_discard) options_.on_discard(name, version);
  changes_.insert(name);
}

std::vector<Stray> ObjectStore::take_strays(std::size_t count_max) {
  const auto count = static_cast<std::ptrdiff_t>(std::min(count_max, strays_.size()));
  std::vector<Stray> taken(strays_.end() - count, strays_.end());
  strays_.resize(strays_.size() - taken.size());
  return taken;
}

void ObjectStore::forget(std::uint64_t number, int owner) {
  const auto found = objects_.find(number);
  if (found == objects_.end() || found->second.discarded) return;
  Object& object = found->second;
  if (std::erase(object.owners, owner) == 0 || !object.owners.empty()) return;
  object.discarded = true;
  Variable& variable = variables_.at(object.variable);
  forgotten_.insert(number);
  Version& version = variable.versions.at(object.version);
  if (object.order == 0) {
    --version.begun;  // its commit fails
  } else {
    version.index.remove(number, object.box);
    version.bytes -= object.bytes;
    variable.held -= version.empty() ? 1 : 0;
  }
  drop_if_unused(variable, object.version);
  changes_.insert(object.variable);
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

std::vector<Seen> ObjectStore::own_objects(const Version& version, const Box& box) const {
  std::vector<std::uint64_t> numbers;
  version.index.find(box, numbers);
  std::vector<Seen> objects;
  objects.reserve(numbers.size());
  for (const std::uint64_t number : numbers) {
    const Object& object = objects_.at(number);
    objects.push_back({options_.server, number, object.box, object.order, places_.range(number)});
  }
  sort_newest_first(objects);
  return objects;
}

bool ObjectStore::meets(const Version& version, const Box& box) const {
  return version.index.meets(box) || version.elsewhere.meets(box);
}

std::uint64_t ObjectStore::keep(Owner owner, Ticket ticket, std::vector<std::uint64_t> objects) {
  Lease lease;
  lease.owner = owner;
  lease.ticket = ticket;
  for (const std::uint64_t number : objects) {
    ++objects_.at(number).leases;
    if (places_.pin(number)) lease.pinned.push_back(number);
  }
  lease.objects = std::move(objects);
  leases_.emplace(++last_lease_, std::move(lease));
  return last_lease_;
}

Error ObjectStore::discarded(const std::string& name, const Variable& variable,
                             std::int64_t version) const {
  std::string kept;
  if (!variable.versions.empty()) {
    kept = "; held are " + std::to_string(variable.versions.begin()->first) + " to " +
           std::to_string(variable.versions.rbegin()->first);
  }
  return {ErrorCode::not_found, version_of(name, version) + " was discarded" + kept};
}

/// Null if there is none yet.
Result<const ObjectStore::Variable*> ObjectStore::variable_of(const GetRequest& request) const {
  const auto found = variables_.find(request.variable);
  if (found == variables_.end()) return nullptr;
  if (found->second.rank != request.box.rank) {
    return wrong_rank(request.variable, found->second.rank, request.box);
  }
  return &found->second;
}

Result<std::variant<Found, Waiting, Spread>> ObjectStore::get(Owner owner,
                                                              const GetRequest& request,
                                                              Ticket ticket) {
  using Answer = std::variant<Found, Waiting, Spread>;
  const auto variable = variable_of(request);
  if (!variable) return variable.error();
  if (*variable == nullptr) {
    return Answer(Waiting{"nothing has been put to \"" + request.variable + "\" yet"});
  }
  const auto& versions = (*variable)->versions;
  if (request.which == Which::exact) {
    return get_version(owner, request, **variable, request.version, ticket);
  }
  if (request.which == Which::next) {
    auto next = versions.upper_bound(request.version);
    while (next != versions.end() && !meets(next->second, request.box)) ++next;
    if (next == versions.end()) return Answer(none_after(request));
    return get_version(owner, request, **variable, next->first, ticket);
  }
  for (auto one = versions.upper_bound(request.version); one != versions.begin();) {
    --one;
    auto answer = get_version(owner, request, **variable, one->first, ticket);
    if (!std::holds_alternative<Waiting>(*answer)) return answer;
  }
  return Answer(none_covers(request));
}

Result<std::variant<Found, Waiting, Spread>> ObjectStore::get_version(Owner owner,
                                                                      const GetRequest& request,
                                                                      const Variable& variable,
                                                                      std::int64_t version,
                                                                      Ticket ticket) {
  using Answer = std::variant<Found, Waiting, Spread>;
  const auto held = variable.versions.find(version);
  if (held == variable.versions.end()) {
    if (variable.discarded.contains(version)) return discarded(request.variable, variable, version);
    return Answer(Waiting{version_of(request.variable, version) + " is not there"});
  }
  if (held->second.elsewhere.meets(request.box)) return Answer(Spread{});
  std::vector<Seen> objects = own_objects(held->second, request.box);
  std::vector<Part> parts;
  Box missing;
  if (!cut(request.box, objects, parts, missing)) {
    return Answer(Waiting{version_of(request.variable, version) + " lacks " + missing.text()});
  }
  // The parts are in the order of the objects: what is hidden altogether has none.
  Found found{version, variable.type, variable.element_bytes, 0, {}};
  std::vector<std::uint64_t> numbers;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    if (k > 0 && parts[k].object == parts[k - 1].object) continue;
    found.objects.push_back(objects[parts[k].object]);
    numbers.push_back(objects[parts[k].object].object);
  }
  found.lease = keep(owner, ticket, std::move(numbers));
  return Answer(std::move(found));
}

Result<std::variant<Found, Waiting>> ObjectStore::find(Owner owner, const GetRequest& request,
                                                       Ticket ticket) {
  using Answer = std::variant<Found, Waiting>;
  const auto variable = variable_of(request);
  if (!variable) return variable.error();
  if (*variable == nullptr) {
    return Answer(Waiting{"nothing has been put to \"" + request.variable + "\" yet"});
  }
  const auto& versions = (*variable)->versions;
  auto held = versions.find(request.version);
  if (request.which == Which::exact) {
    if ((*variable)->discarded.contains(request.version)) {
      return discarded(request.variable, **variable, request.version);
    }
    if (held == versions.end()) {
      return Answer(Waiting{version_of(request.variable, request.version) + " is not there"});
    }
  } else if (request.which == Which::next) {
    held = versions.upper_bound(request.version);
    while (held != versions.end() && !meets(held->second, request.box)) ++held;
    if (held == versions.end()) return Answer(none_after(request));
  } else {
    auto above = versions.upper_bound(request.version);
    while (above != versions.begin() && !meets(std::prev(above)->second, request.box)) --above;
    if (above == versions.begin()) return Answer(none_covers(request));
    held = std::prev(above);
  }
  Found found{held->first, (*variable)->type, (*variable)->element_bytes, 0,
              own_objects(held->second, request.box)};
  std::vector<std::uint64_t> numbers;
  for (const Seen& object : found.objects) numbers.push_back(object.object);
  found.lease = keep(owner, ticket, numbers);
  numbers.clear();
  held->second.elsewhere.find(request.box, numbers);
  for (const std::uint64_t number : numbers) {
    const Entered& entered = entered_.at(number);
    found.objects.push_back({entered.where.first, entered.where.second, entered.box, 0, {}});
  }
  return Answer(std::move(found));
}

Result<std::vector<Leased>> ObjectStore::lease(Owner owner, const std::string& name,
                                               std::int64_t version,
                                               std::span<const std::uint64_t> objects,
                                               std::uint64_t& lease, Ticket ticket) {
  const auto variable = variables_.find(name);
  if (variable != variables_.end() && variable->second.discarded.contains(version)) {
    return discarded(name, variable->second, version);
  }
  std::vector<Leased> answers;
  std::vector<std::uint64_t> here;
  for (const std::uint64_t number : objects) {
    const auto found = objects_.find(number);
    if (variable != variables_.end() && forgotten_.contains(number)) {
      return discarded(name, variable->second, version);
    }
    Leased answer;
    if (found != objects_.end() && found->second.variable == name &&
        found->second.version == version) {
      answer.state = found->second.order > 0 ? Leased::State::here : Leased::State::begun;
      answer.order = found->second.order;
      answer.range = places_.range(number);
    }
    if (answer.state == Leased::State::here) here.push_back(number);
    answers.push_back(answer);
  }
  lease = keep(owner, ticket, std::move(here));
  return answers;
}

Result<std::variant<Range, Waiting>> ObjectStore::recall(Owner owner, std::uint64_t number,
                                                         std::uint64_t object) {
  using Answer = std::variant<Range, Waiting>;
  const auto found = leases_.find(number);
  if (found == leases_.end() || found->second.owner != owner) return no_lease();
  Lease& lease = found->second;
  const bool goes_on = object != 0 && lease.wanted == object;
  if (!goes_on) loosen(lease);
  if (object == 0) return Answer(Range{});
  if (std::find(lease.objects.begin(), lease.objects.end(), object) == lease.objects.end()) {
    return Error{ErrorCode::not_found, "the lease keeps no such object"};
  }
  if (places_.pin(object)) {
    loosen(lease);
    lease.pinned.push_back(object);
    return Answer(places_.range(object));
  }
  if (goes_on) {
    if (auto failure = places_.take_failure(object)) {
      loosen(lease);
      return *failure;
    }
    places_.ask_again(object);
  } else {
    places_.want(object);
    lease.wanted = object;
  }
  return Answer(Waiting{places_.why_away(object)});
}

void ObjectStore::ended(const Move& move, const Status& status) {
  places_.ended(move, status);
  if (move.kind == Move::Kind::in) changes_.insert("");
}

Status ObjectStore::release(Owner owner, std::uint64_t lease) {
  const auto found = leases_.find(lease);
  if (found == leases_.end() || found->second.owner != owner) return no_lease();
  end_lease(found->second);
  leases_.erase(found);
  return {};
}

/// Nothing of the lease has to be in memory any more.
void ObjectStore::loosen(Lease& lease) {
  for (const std::uint64_t number : std::exchange(lease.pinned, {})) places_.unpin(number);
  if (lease.wanted != 0) places_.unwant(std::exchange(lease.wanted, 0));
}

void ObjectStore::end_lease(Lease& lease) {
  loosen(lease);
  for (const std::uint64_t number : lease.objects) {
    Object& object = objects_.at(number);
    if (--object.leases > 0) continue;
    if (object.discarded) {
      drop(number);
    } else {
      changes_.insert("");  // it could make room now
    }
  }
}

std::vector<std::uint64_t> ObjectStore::undo(Owner owner, Ticket ticket) {
  if (ticket == 0) return {};
  return end_all(owner, ticket);
}

void ObjectStore::gone(Owner owner) { (void)end_all(owner, {}); }

std::vector<std::uint64_t> ObjectStore::end_all(Owner owner, std::optional<Ticket> ticket) {
  const auto is_one = [&](const auto& one) {
    return one.owner == owner && (!ticket || one.ticket == *ticket);
  };
  std::vector<std::uint64_t> begun;
  for (const auto& [number, object] : objects_) {
    if (is_one(object) && object.order == 0) begun.push_back(number);
  }
  for (const std::uint64_t number : begun) (void)abort(owner, number);
  std::vector<std::uint64_t> ended;
  for (auto lease = leases_.begin(); lease != leases_.end();) {
    const auto next = std::next(lease);
    if (is_one(lease->second)) {
      end_lease(lease->second);
      ended.push_back(lease->first);
      leases_.erase(lease);
    }
    lease = next;
  }
  return ended;
}

std::optional<VariableInfo> ObjectStore::describe(const std::string& name) const {
  const auto found = variables_.find(name);
  if (found == variables_.end() || !found->second.bounds) return std::nullopt;
  const Variable& variable = found->second;
  return VariableInfo{name, variable.type, variable.element_bytes, *variable.bounds, {}, 0};
}

std::vector<VariableInfo> ObjectStore::list() const {
  std::vector<VariableInfo> all;
  for (const auto& [name, variable] : variables_) {
    auto info = describe(name);
    if (!info) continue;
    for (const auto& [number, version] : variable.versions) {
      const auto objects = static_cast<std::int64_t>(version.index.size());
      if (objects > 0) info->versions.push_back({number, objects, version.bytes});
    }
    all.push_back(std::move(*info));
  }
  return all;
}

}  // namespace tranship::staging
