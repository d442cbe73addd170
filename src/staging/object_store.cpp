#include "staging/object_store.hpp"

#include <algorithm>

namespace tranship::staging {
namespace {

std::string version_of(const std::string& variable, std::int64_t version) {
  return "version " + std::to_string(version) + " of \"" + variable + "\"";
}

std::size_t at(int index) { return static_cast<std::size_t>(index); }

Status check_rank(const std::string& variable, const Box& bounds, const Box& box) {
  if (bounds.rank == box.rank) return {};
  return Error{ErrorCode::invalid_argument,
               "\"" + variable + "\" has " + std::to_string(bounds.rank) +
                   " dimensions, and the box " + box.text() + " has " + std::to_string(box.rank)};
}

}  // namespace

Result<ObjectStore::Variable*> ObjectStore::variable_for(const PutRequest& request) {
  auto found = variables_.find(request.variable);
  if (found == variables_.end()) {
    Variable made;
    made.type = request.type;
    made.element_bytes = request.element_bytes;
    made.bounds = request.box;
    found = variables_.emplace(request.variable, std::move(made)).first;
  }
  Variable& variable = found->second;
  if (variable.type != request.type || variable.element_bytes != request.element_bytes) {
    return Error{ErrorCode::invalid_argument, "\"" + request.variable + "\" has elements of " +
                                                  variable.type + ", not of " + request.type +
                                                  "; put another variable, or convert the array"};
  }
  if (Status s = check_rank(request.variable, variable.bounds, request.box); !s) return s.error();
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

Result<std::variant<Begun, Waiting>> ObjectStore::begin(Owner owner, const PutRequest& request) {
  std::int64_t bytes = 0;
  if (request.element_bytes < 1 || request.element_bytes > 16 ||
      __builtin_mul_overflow(request.box.points(), request.element_bytes, &bytes)) {
    return Error{ErrorCode::invalid_argument,
                 "elements have 1 to 16 bytes, not " + std::to_string(request.element_bytes)};
  }
  const bool is_new = !variables_.contains(request.variable);
  auto variable = variable_for(request);
  if (!variable) return variable.error();
  auto room = make_room(request, bytes);
  if (!room || std::holds_alternative<Waiting>(*room)) {
    if (is_new) variables_.erase(request.variable);
    if (!room) return room.error();
    return std::variant<Begun, Waiting>(std::get<Waiting>(*room));
  }
  Object object;
  object.variable = request.variable;
  object.version = request.version;
  object.box = request.box;
  object.range = std::get<Range>(*room);
  object.owner = owner;
  const std::uint64_t number = ++last_object_;
  Begun begun{number, object.range};
  objects_.emplace(number, std::move(object));
  ++(*variable)->versions[request.version].begun;
  if (is_new) changes_.insert(request.variable);
  if (!(*variable)->producers.contains(owner)) (*variable)->lost_producer = false;
  (*variable)->producers.insert(owner);
  return std::variant<Begun, Waiting>(begun);
}

Result<std::variant<Range, Waiting>> ObjectStore::make_room(const PutRequest& request,
                                                            std::int64_t bytes) {
  const auto refusal = [&](const std::string& why) {
    return Error{ErrorCode::out_of_memory, "an object of " + std::to_string(bytes) +
                                               " bytes does not fit the server, which may take " +
                                               std::to_string(options_.memory_bytes) +
                                               " bytes of memory" + why + "; start it with more"};
  };
  if (bytes > options_.memory_bytes) return refusal("");
  while (true) {
    if (auto range = heap_.allocate(bytes)) return std::variant<Range, Waiting>(*range);
    if (heap_.bytes() + bytes <= options_.memory_bytes) {
      if (Status status = add_segment(bytes); !status)
        return refusal(" (" + status.error().message + ")");
      continue;
    }
    if (options_.full == Full::discard_oldest && discard_oldest(request)) continue;
    // What is there is free, and yet too small in each piece: nothing will ever change that.
    if (objects_.empty()) return refusal(" in pieces that are smaller");
    return std::variant<Range, Waiting>(
        Waiting{"the server's memory of " + std::to_string(options_.memory_bytes) +
                " bytes is full: discard versions, keep fewer, or start it with more"});
  }
}

Status ObjectStore::add_segment(std::int64_t bytes_least) {
  const std::int64_t left = options_.memory_bytes - heap_.bytes();
  const std::int64_t bytes =
      std::max(heap_.rounded(bytes_least), std::min(options_.segment_bytes, left));
  if (Status status = options_.make_segment(bytes); !status) return status;
  heap_.add_segment(segments_++, bytes);
  return {};
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
  const std::int64_t free_before = heap_.bytes_free();
  discard_version(object.variable, variables_.at(object.variable), object.version);
  return heap_.bytes_free() > free_before;
}

Status ObjectStore::commit(Owner owner, std::uint64_t number) {
  const auto found = objects_.find(number);
  if (found == objects_.end() || found->second.owner != owner || found->second.order != 0) {
    return Error{ErrorCode::not_found, "there is no such object to commit"};
  }
  Object& object = found->second;
  Variable& variable = variables_.at(object.variable);
  Version& version = variable.versions.at(object.version);
  object.order = ++commits_;
  --version.begun;
  variable.held += version.index.size() == 0 ? 1 : 0;
  version.index.add(number, object.box);
  version.bytes += object.range.bytes;
  for (std::size_t k = 0; k < at(object.box.rank); ++k) {
    variable.bounds.lower[k] = std::min(variable.bounds.lower[k], object.box.lower[k]);
    variable.bounds.upper[k] = std::max(variable.bounds.upper[k], object.box.upper[k]);
  }
  changes_.insert(object.variable);
  const std::string name = object.variable;
  keep_to_versions(name, variable);
  return {};
}

Status ObjectStore::abort(Owner owner, std::uint64_t number) {
  const auto found = objects_.find(number);
  if (found == objects_.end() || found->second.owner != owner || found->second.order != 0) {
    return Error{ErrorCode::not_found, "there is no such object to give up"};
  }
  Variable& variable = variables_.at(found->second.variable);
  const auto version = variable.versions.find(found->second.version);
  if (--version->second.begun == 0 && version->second.index.size() == 0) {
    variable.versions.erase(version);
  }
  drop(number);
  return {};
}

void ObjectStore::keep_to_versions(const std::string& name, Variable& variable) {
  if (options_.versions_max == 0) return;
  for (auto one = variable.versions.begin(); variable.held > options_.versions_max;) {
    const std::int64_t version = one->first;
    const bool visible = one->second.index.size() > 0;
    if (one->second.begun > 0) return;  // it goes when its last object has come
    ++one;
    if (visible) discard_version(name, variable, version);
  }
}

void ObjectStore::discard_version(const std::string& name, Variable& variable,
                                  std::int64_t version) {
  std::vector<std::uint64_t> numbers;
  const auto held = variable.versions.find(version);
  held->second.index.find(variable.bounds, numbers);
  for (const std::uint64_t number : numbers) {
    Object& object = objects_.at(number);
    object.discarded = true;
    if (object.leases == 0) drop(number);
  }
  variable.versions.erase(held);
  --variable.held;
  variable.discarded.insert(version);
  changes_.insert(name);
}

Status ObjectStore::discard(const std::string& name, std::int64_t version) {
  const auto found = variables_.find(name);
  if (found == variables_.end() || !found->second.versions.contains(version)) {
    return Error{ErrorCode::not_found, "there is no " + version_of(name, version)};
  }
  if (found->second.versions.at(version).begun > 0) {
    return Error{ErrorCode::invalid_argument,
                 version_of(name, version) + " is being written; discard it afterwards"};
  }
  discard_version(name, found->second, version);
  return {};
}

void ObjectStore::drop(std::uint64_t number) {
  const auto found = objects_.find(number);
  heap_.release(found->second.range);
  objects_.erase(found);
  changes_.insert("");
}

bool ObjectStore::covered(const Version& version, const Box& box, std::vector<Part>& parts,
                          std::vector<std::uint64_t>& objects, Box& missing) const {
  std::vector<std::uint64_t> numbers;
  version.index.find(box, numbers);
  std::sort(numbers.begin(), numbers.end(), [&](std::uint64_t a, std::uint64_t b) {
    return objects_.at(a).order > objects_.at(b).order;
  });
  std::vector<Box> open{box};
  std::vector<Box> left;
  for (const std::uint64_t number : numbers) {
    if (open.empty()) break;
    const Object& object = objects_.at(number);
    left.clear();
    bool used = false;
    for (const Box& one : open) {
      if (const auto part = intersection(one, object.box)) {
        parts.push_back({object.range, object.box, *part});
        used = true;
      }
      subtract(one, object.box, left);
    }
    if (used) objects.push_back(number);
    open.swap(left);
  }
  if (open.empty()) return true;
  missing = open.front();
  return false;
}

Result<std::variant<Found, Waiting>> ObjectStore::get(Owner owner, const GetRequest& request) {
  const auto found = variables_.find(request.variable);
  if (found == variables_.end()) {
    return std::variant<Found, Waiting>(
        Waiting{"nothing has been put to \"" + request.variable + "\" yet"});
  }
  const Variable& variable = found->second;
  if (Status s = check_rank(request.variable, variable.bounds, request.box); !s) return s.error();
  if (request.which == Which::latest) return find_latest(owner, request);
  if (request.which == Which::exact) return find(owner, request, request.version);
  auto next = variable.versions.upper_bound(request.version);
  while (next != variable.versions.end() && next->second.index.size() == 0) ++next;
  if (next == variable.versions.end()) {
    return wait_for(request, "there is no version of \"" + request.variable + "\" after " +
                                 std::to_string(request.version));
  }
  return find(owner, request, next->first);
}

Result<std::variant<Found, Waiting>> ObjectStore::find_latest(Owner owner,
                                                              const GetRequest& request) {
  const Variable& variable = variables_.at(request.variable);
  for (auto one = variable.versions.rbegin(); one != variable.versions.rend(); ++one) {
    std::vector<Part> parts;
    std::vector<std::uint64_t> objects;
    Box missing;
    if (!covered(one->second, request.box, parts, objects, missing)) continue;
    return found(owner, variable, one->first, std::move(parts), std::move(objects));
  }
  return wait_for(request,
                  "no version of \"" + request.variable + "\" covers " + request.box.text());
}

Result<std::variant<Found, Waiting>> ObjectStore::find(Owner owner, const GetRequest& request,
                                                       std::int64_t version) {
  const Variable& variable = variables_.at(request.variable);
  const auto held = variable.versions.find(version);
  if (held == variable.versions.end()) {
    if (!variable.discarded.contains(version)) {
      return wait_for(request, version_of(request.variable, version) + " is not there");
    }
    std::string kept;
    if (!variable.versions.empty()) {
      kept = "; held are " + std::to_string(variable.versions.begin()->first) + " to " +
             std::to_string(variable.versions.rbegin()->first);
    }
    return Error{ErrorCode::not_found,
                 version_of(request.variable, version) + " was discarded" + kept};
  }
  std::vector<Part> parts;
  std::vector<std::uint64_t> objects;
  Box missing;
  if (!covered(held->second, request.box, parts, objects, missing)) {
    return wait_for(request, version_of(request.variable, version) + " lacks " + missing.text());
  }
  return found(owner, variable, version, std::move(parts), std::move(objects));
}

std::variant<Found, Waiting> ObjectStore::found(Owner owner, const Variable& variable,
                                                std::int64_t version, std::vector<Part> parts,
                                                std::vector<std::uint64_t> objects) {
  for (const std::uint64_t number : objects) ++objects_.at(number).leases;
  Found answer{version, variable.type, variable.element_bytes, std::move(parts), ++last_lease_};
  leases_.emplace(answer.lease, Lease{owner, std::move(objects)});
  return answer;
}

/// What is not there may still come, if somebody is there who could bring it.
Result<std::variant<Found, Waiting>> ObjectStore::wait_for(const GetRequest& request,
                                                           std::string why) const {
  const Variable& variable = variables_.at(request.variable);
  if (!variable.producers.empty()) {
    return std::variant<Found, Waiting>(Waiting{std::move(why)});
  }
  if (variable.lost_producer) {
    return Error{ErrorCode::peer_lost, why + ", and a process that put to it has died"};
  }
  return Error{ErrorCode::closed, why + ", and all processes that put to it have ended"};
}

Status ObjectStore::release(Owner owner, std::uint64_t lease) {
  const auto found = leases_.find(lease);
  if (found == leases_.end() || found->second.owner != owner) {
    return Error{ErrorCode::not_found, "there is no such lease"};
  }
  end_lease(found->second);
  leases_.erase(found);
  return {};
}

void ObjectStore::end_lease(const Lease& lease) {
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

void ObjectStore::gone(Owner owner, bool cleanly) {
  std::vector<std::uint64_t> begun;
  for (const auto& [number, object] : objects_) {
    if (object.owner == owner && object.order == 0) begun.push_back(number);
  }
  for (const std::uint64_t number : begun) (void)abort(owner, number);
  for (auto lease = leases_.begin(); lease != leases_.end();) {
    const auto next = std::next(lease);
    if (lease->second.owner == owner) {
      end_lease(lease->second);
      leases_.erase(lease);
    }
    lease = next;
  }
  for (auto& [name, variable] : variables_) {
    if (variable.producers.erase(owner) == 0) continue;
    if (!cleanly) variable.lost_producer = true;
    changes_.insert(name);
  }
}

VariableInfo ObjectStore::described(const std::string& name, const Variable& variable) {
  return {name,
          variable.type,
          variable.bounds.rank,
          variable.bounds,
          {},
          static_cast<int>(variable.producers.size())};
}

std::variant<VariableInfo, Waiting> ObjectStore::describe(const std::string& name) const {
  const auto found = variables_.find(name);
  if (found != variables_.end()) return described(name, found->second);
  return Waiting{"nothing has been put to \"" + name + "\" yet"};
}

std::vector<VariableInfo> ObjectStore::list() const {
  std::vector<VariableInfo> all;
  for (const auto& [name, variable] : variables_) {
    VariableInfo info = described(name, variable);
    for (const auto& [number, version] : variable.versions) {
      const auto objects = static_cast<std::int64_t>(version.index.size());
      if (objects > 0) info.versions.push_back({number, objects, version.bytes});
    }
    all.push_back(std::move(info));
  }
  return all;
}

}  // namespace tranship::staging
