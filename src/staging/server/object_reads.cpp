#include "staging/server/object_reads.hpp"

#include <algorithm>

namespace tranship::staging {

Status ObjectReads::check(ClientConnection client) const {
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

std::uint64_t ObjectReads::grant(ClientConnection client, RequestId request_id,
                                 std::vector<std::uint64_t> objects) {
  ObjectLease lease;
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

Result<std::pair<Box, Range>> ObjectReads::in_memory(ClientConnection client, std::uint64_t number,
                                                     std::uint64_t object) {
  const ObjectLease* lease = leases_.find(client, number);
  if (lease == nullptr) return no_lease();
  const auto& pinned = lease->pinned;
  if (std::find(pinned.begin(), pinned.end(), object) == pinned.end()) {
    return Error{ErrorCode::not_found, "the lease keeps no such object in memory"};
  }
  return std::pair(objects_.at(object).box, residency_.range(object));
}

Result<std::variant<Range, Waiting>> ObjectReads::recall(ClientConnection client,
                                                         std::uint64_t number,
                                                         std::uint64_t object) {
  using Answer = std::variant<Range, Waiting>;
  ObjectLease* held = leases_.find(client, number);
  if (held == nullptr) return no_lease();
  ObjectLease& lease = *held;
  const bool goes_on = object != 0 && lease.wanted == object;
  if (!goes_on) unpin(lease);
  if (object == 0) return Answer(Range{});
  if (std::find(lease.objects.begin(), lease.objects.end(), object) == lease.objects.end()) {
    return Error{ErrorCode::not_found, "the lease keeps no such object"};
  }
  if (objects_.at(object).offer != nullptr) {
    return Error{ErrorCode::invalid_argument, "the object lies in its producer's memory"};
  }
  if (residency_.pin(object)) {
    unpin(lease);
    lease.pinned.push_back(object);
    return Answer(residency_.range(object));
  }
  if (goes_on) {
    if (auto failure = residency_.take_failure(object)) {
      unpin(lease);
      const ServerObject& lost = objects_.at(object);
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

Status ObjectReads::release(ClientConnection client, std::uint64_t lease) {
  if (leases_.find(client, lease) == nullptr) return no_lease();
  end(lease);
  return {};
}

std::vector<std::uint64_t> ObjectReads::undo(ClientConnection client, RequestId request_id) {
  std::vector<std::uint64_t> ended;
  const Leases::Holdings* holdings = leases_.holdings(client);
  if (holdings == nullptr) return ended;
  for (const std::uint64_t lease : holdings->leases) {
    if (leases_.at(lease).request_id == request_id) ended.push_back(lease);
  }
  for (const std::uint64_t lease : ended) end(lease);
  return ended;
}

void ObjectReads::lose(ClientConnection client) {
  const Leases::Holdings* holdings = leases_.holdings(client);
  if (holdings == nullptr) return;
  for (const std::uint64_t number : holdings->leases) {
    ObjectLease& lease = leases_.at(number);
    if (lease.wanted != 0) residency_.unwant(std::exchange(lease.wanted, 0));
    for (const std::uint64_t object : std::exchange(lease.objects, lease.pinned)) {
      const auto& kept = lease.pinned;
      if (std::find(kept.begin(), kept.end(), object) == kept.end()) let_go(object);
    }
  }
}

void ObjectReads::end_all(ClientConnection client) {
  const Leases::Holdings* holdings = leases_.holdings(client);
  if (holdings == nullptr) return;
  for (const std::uint64_t lease : std::vector(holdings->leases)) end(lease);
}

void ObjectReads::unpin(ObjectLease& lease) {
  for (const std::uint64_t number : std::exchange(lease.pinned, {})) residency_.unpin(number);
  if (lease.wanted != 0) residency_.unwant(std::exchange(lease.wanted, 0));
}

void ObjectReads::end(std::uint64_t number) {
  ObjectLease lease = leases_.remove(number);
  unpin(lease);
  for (const std::uint64_t object : lease.objects) let_go(object);
}

void ObjectReads::let_go(std::uint64_t number) {
  ServerObject& object = objects_.at(number);
  if (--object.leases > 0) return;
  if (object.discarded) {
    if (object.offer != nullptr) ended_offers_.emplace_back(object.client, number);
    residency_.drop(number);
    objects_.erase(number);
  } else {
    idle_ = true;
  }
}

}  // namespace tranship::staging
