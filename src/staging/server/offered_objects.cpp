// Objects that stay in their producers' memory: this server indexes them, and says who reads them.
#include <algorithm>
#include <memory>

#include "base/text.hpp"
#include "staging/server/object_store.hpp"

namespace tranship::staging {

Result<std::uint64_t> ObjectStore::begin_offer(ClientConnection client, const PutRequest& request,
                                               OfferedMemory memory, RequestId request_id) {
  auto variable = variable_for(request);
  if (!variable) return variable.error();
  if (Status allowed = check_limits(client, **variable, request.version); !allowed) {
    drop_if_unused(request.variable, request.version);
    return allowed.error();
  }
  const std::uint64_t number = ++last_object_;
  residency_.add_offered(number);
  ServerObject& object = add_begun(client, number, request, **variable, request_id);
  object.bytes = request.box.points() * request.element_bytes;
  object.offer = std::make_shared<const OfferedMemory>(std::move(memory));
  return number;
}

void ObjectStore::withdraw_offer(ClientConnection client, std::uint64_t number) {
  if (!has_offer(client, number)) return;
  if (begun_by(client, number) != nullptr) {
    (void)abort(client, number);
  } else if (!objects_.at(number).discarded) {
    take_out(number);
  }
}

bool ObjectStore::has_offer(ClientConnection client, std::uint64_t number) const {
  const auto found = objects_.find(number);
  if (found == objects_.end()) return false;
  const ServerObject& object = found->second;
  return object.offer != nullptr && object.client == client && !object.lost;
}

std::string ObjectStore::why_offered(
    std::uint64_t number, const std::function<std::string(ClientConnection)>& name_of) const {
  const ServerObject& object = objects_.at(number);
  const std::string what =
      version_of(object.variable, object.version) + ", " + object.box.text() + ", ";
  if (object.leases == 0) return what + "is offered";
  std::set<std::string> names;
  leases_.each_lease([&](const ObjectLease& lease) {
    const auto& kept = lease.objects;
    if (std::find(kept.begin(), kept.end(), number) != kept.end()) {
      names.insert(in_quotes(name_of(lease.client)));
    }
  });
  std::string who;
  for (const std::string& name : names) who += (who.empty() ? "" : ", ") + name;
  return what + "is being read by " + who;
}

Result<OfferedMemory> ObjectStore::find_offer(ClientConnection client, std::uint64_t number,
                                              std::uint64_t object_number) const {
  const ObjectLease* lease = leases_.find(client, number);
  if (lease == nullptr) return no_lease();
  const auto& kept = lease->objects;
  const bool holds = std::find(kept.begin(), kept.end(), object_number) != kept.end();
  if (!holds || objects_.at(object_number).offer == nullptr) {
    return Error{ErrorCode::not_found, "the lease keeps no such offer"};
  }
  const ServerObject& object = objects_.at(object_number);
  if (!object.lost) return *object.offer;
  return Error{ErrorCode::peer_lost,
               version_of(object.variable, object.version) + ", " + object.box.text() +
                   ", is lost: it lay in the memory of " + in_quotes(object.offer->producer) +
                   ", which has exited or lost its connection",
               "discard the version, or put it again"};
}

/// Records that an offer has ended, for the client that may wait for it.
void ObjectStore::end_offer(ClientConnection client, std::uint64_t number) {
  changes_.insert(offer_watch(number));
  const auto of_client = offers_.find(client);
  if (of_client == offers_.end()) return;
  of_client->second.erase(number);
  if (of_client->second.empty()) offers_.erase(of_client);
}

/// The elements of what a lost client has offered are lost. Its objects stay, so that gets of them
/// fail in place of waiting, until their version goes or others hide them.
void ObjectStore::lose_offers(ClientConnection client) {
  const auto of_client = offers_.find(client);
  if (of_client == offers_.end()) return;
  for (const std::uint64_t number : of_client->second) {
    const auto found = objects_.find(number);
    if (found == objects_.end()) continue;
    found->second.lost = true;
    changes_.insert(found->second.variable);
  }
  offers_.erase(of_client);
}

void ObjectStore::withdraw_entry(ClientConnection client, const std::string& name,
                                 std::int64_t number, const ObjectId& object) {
  const auto key = entry_of(name, number, object);
  if (!key) return;
  const IndexEntry& entry = entries_.at(*key);
  if (entry.client != client) return;
  if (entry.state != IndexEntry::State::confirmed) return drop_entry(*key);
  HeldVariable& variable = variables_.at(name);
  variable.versions.remove_confirmed(number, object, Box(entry.box));
  entries_.discard(*key);
  changes_.insert(name);
  drop_if_unused(name, number);
}

}  // namespace tranship::staging
