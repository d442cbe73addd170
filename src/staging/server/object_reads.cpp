// What gets see of the objects of a staging server, and what keeps those there.
#include <algorithm>

#include "base/text.hpp"
#include "staging/server/object_store.hpp"

namespace tranship::staging {
namespace {

Waiting none_after(const GetRequest& request) {
  return {"there is no version of " + in_quotes(request.variable) + " after " +
          std::to_string(request.version)};
}

Waiting none_covers(const GetRequest& request) {
  return {"no version of " + in_quotes(request.variable) + " covers " + request.box.text()};
}

}  // namespace

std::vector<StoredObject> ObjectStore::own_objects(const Version& version, const Box& box) const {
  std::vector<std::uint64_t> numbers;
  version.index.find(box, numbers);
  std::vector<StoredObject> objects;
  objects.reserve(numbers.size());
  for (const std::uint64_t number : numbers) {
    const Object& object = objects_.at(number);
    objects.push_back({options_.server, number, object.box, object.order, residency_.range(number),
                       0, object.checksum});
  }
  sort_newest_first(objects);
  return objects;
}

bool ObjectStore::meets(const Version& version, const Box& box) const {
  return version.index.meets(box) || version.elsewhere.meets(box);
}

std::uint64_t ObjectStore::keep(ClientConnection client, RequestId request_id,
                                std::vector<std::uint64_t> objects) {
  Lease lease;
  lease.client = client;
  lease.request_id = request_id;
  if (options_.now_ns) lease.begin_ns = options_.now_ns();
  for (const std::uint64_t number : objects) {
    ++objects_.at(number).leases;
    if (residency_.pin(number)) lease.pinned.push_back(number);
  }
  lease.objects = std::move(objects);
  return leases_.add(std::move(lease));
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
  // One that was deleted is not there, whoever still has to hear of it.
  const std::uint64_t incarnation = request.incarnation.number;
  if (incarnation != 0 && found->second.incarnation != incarnation) return nullptr;
  if (found->second.rank != request.box.rank) {
    return wrong_rank(request.variable, found->second.rank, request.box);
  }
  return &found->second;
}

Result<std::variant<FoundObjects, Waiting, NeedsOtherServers>> ObjectStore::get(
    ClientConnection client, const GetRequest& request, RequestId request_id) {
  using Answer = std::variant<FoundObjects, Waiting, NeedsOtherServers>;
  if (Status status = check_leases(client); !status) return status.error();
  const auto variable = variable_of(request);
  if (!variable) return variable.error();
  if (*variable == nullptr) {
    return Answer(Waiting{"nothing has been put to " + in_quotes(request.variable) + " yet"});
  }
  const auto& versions = (*variable)->versions;
  if (request.choice == VersionChoice::exact) {
    return get_version(client, request, **variable, request.version, request_id);
  }
  if (request.choice == VersionChoice::next) {
    auto next = versions.upper_bound(request.version);
    while (next != versions.end() && !meets(next->second, request.box)) ++next;
    if (next == versions.end()) return Answer(none_after(request));
    return get_version(client, request, **variable, next->first, request_id);
  }
  for (auto one = versions.upper_bound(request.version); one != versions.begin();) {
    --one;
    auto answer = get_version(client, request, **variable, one->first, request_id);
    if (!std::holds_alternative<Waiting>(*answer)) return answer;
  }
  return Answer(none_covers(request));
}

Result<std::variant<FoundObjects, Waiting, NeedsOtherServers>> ObjectStore::get_version(
    ClientConnection client, const GetRequest& request, const Variable& variable,
    std::int64_t version, RequestId request_id) {
  using Answer = std::variant<FoundObjects, Waiting, NeedsOtherServers>;
  const auto held = variable.versions.find(version);
  if (held == variable.versions.end()) {
    if (variable.was_discarded(version)) return discarded(request.variable, variable, version);
    return Answer(Waiting{version_of(request.variable, version) + " is not there"});
  }
  if (held->second.elsewhere.meets(request.box)) return Answer(NeedsOtherServers{});
  std::vector<StoredObject> objects = own_objects(held->second, request.box);
  std::vector<Part> parts;
  Box missing;
  if (!find_parts(request.box, objects, parts, missing)) {
    return Answer(Waiting{version_of(request.variable, version) + " lacks " + missing.text()});
  }
  // The parts are in the order of the objects: what is hidden altogether has none.
  FoundObjects found{version, variable.type, variable.element_bytes, 0, {}};
  std::vector<std::uint64_t> numbers;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    if (k > 0 && parts[k].object == parts[k - 1].object) continue;
    found.objects.push_back(objects[parts[k].object]);
    numbers.push_back(objects[parts[k].object].object);
  }
  found.lease = keep(client, request_id, std::move(numbers));
  return Answer(std::move(found));
}

Result<std::variant<FoundObjects, Waiting>> ObjectStore::find(ClientConnection client,
                                                              const GetRequest& request,
                                                              RequestId request_id) {
  using Answer = std::variant<FoundObjects, Waiting>;
  if (Status status = check_leases(client); !status) return status.error();
  const auto variable = variable_of(request);
  if (!variable) return variable.error();
  if (*variable == nullptr) {
    return Answer(Waiting{"nothing has been put to " + in_quotes(request.variable) + " yet"});
  }
  const auto& versions = (*variable)->versions;
  auto held = versions.find(request.version);
  if (request.choice == VersionChoice::exact) {
    if ((*variable)->was_discarded(request.version)) {
      return discarded(request.variable, **variable, request.version);
    }
    if (held == versions.end()) {
      return Answer(Waiting{version_of(request.variable, request.version) + " is not there"});
    }
  } else if (request.choice == VersionChoice::next) {
    held = versions.upper_bound(request.version);
    while (held != versions.end() && !meets(held->second, request.box)) ++held;
    if (held == versions.end()) return Answer(none_after(request));
  } else {
    auto above = versions.upper_bound(request.version);
    while (above != versions.begin() && !meets(std::prev(above)->second, request.box)) --above;
    if (above == versions.begin()) return Answer(none_covers(request));
    held = std::prev(above);
  }
  FoundObjects found{held->first, (*variable)->type, (*variable)->element_bytes, 0,
                     own_objects(held->second, request.box)};
  std::vector<std::uint64_t> numbers;
  for (const StoredObject& object : found.objects) numbers.push_back(object.object);
  found.lease = keep(client, request_id, numbers);
  numbers.clear();
  held->second.elsewhere.find(request.box, numbers);
  for (const std::uint64_t number : numbers) {
    const IndexEntry& entered = index_entries_.at(number);
    const ObjectId& at = entered.where.id;
    found.objects.push_back({at.primary, at.object, entered.box, 0, {}});
  }
  return Answer(std::move(found));
}

Result<std::vector<LeasedObject>> ObjectStore::lease(ClientConnection client,
                                                     const std::string& name, std::int64_t version,
                                                     std::span<const std::uint64_t> objects,
                                                     std::uint64_t& lease, RequestId request_id) {
  if (Status status = check_leases(client); !status) return status.error();
  const auto variable = variables_.find(name);
  if (variable != variables_.end() && variable->second.was_discarded(version)) {
    return discarded(name, variable->second, version);
  }
  std::vector<LeasedObject> answers;
  std::vector<std::uint64_t> here;
  for (const std::uint64_t number : objects) {
    const auto found = objects_.find(number);
    if (forgotten_.contains(number)) {
      return Error{ErrorCode::not_found, version_of(name, version) + " was discarded"};
    }
    LeasedObject answer;
    if (found != objects_.end() && found->second.variable == name &&
        found->second.version == version) {
      answer.state =
          found->second.order > 0 ? LeasedObject::State::here : LeasedObject::State::begun;
      answer.order = found->second.order;
      answer.range = residency_.range(number);
      answer.checksum = found->second.checksum;
    }
    if (answer.state == LeasedObject::State::here) here.push_back(number);
    answers.push_back(answer);
  }
  lease = keep(client, request_id, std::move(here));
  return answers;
}

Result<std::variant<Range, Waiting>> ObjectStore::recall(ClientConnection client,
                                                         std::uint64_t number,
                                                         std::uint64_t object) {
  using Answer = std::variant<Range, Waiting>;
  Lease* held = leases_.find(client, number);
  if (held == nullptr) return no_lease();
  Lease& lease = *held;
  const bool goes_on = object != 0 && lease.wanted == object;
  if (!goes_on) loosen(lease);
  if (object == 0) return Answer(Range{});
  if (std::find(lease.objects.begin(), lease.objects.end(), object) == lease.objects.end()) {
    return Error{ErrorCode::not_found, "the lease keeps no such object"};
  }
  if (residency_.pin(object)) {
    loosen(lease);
    lease.pinned.push_back(object);
    return Answer(residency_.range(object));
  }
  if (goes_on) {
    if (auto failure = residency_.take_failure(object)) {
      loosen(lease);
      const Object& lost = objects_.at(object);
      failure->message = version_of(lost.variable, lost.version) + ", " + lost.box.text() +
                         ", does not come back from disk: " + failure->message;
      return *failure;
    }
    residency_.ask_again(object);
  } else {
    residency_.want(object);
    lease.wanted = object;
  }
  return Answer(Waiting{residency_.why_away(object)});
}

void ObjectStore::ended(const Move& move, const Status& status) {
  residency_.ended(move, status);
  if (move.kind == Move::Kind::in) changes_.insert("");
}

}  // namespace tranship::staging
