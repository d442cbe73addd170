#include "staging/model/leases.hpp"

#include <algorithm>
#include <utility>

namespace tranship::staging {
namespace {

/// Removes one element, searched from the back: the last grant is mostly given up first.
template <typename T, typename Is>
bool remove_one(std::vector<T>& list, const Is& is) {
  const auto found = std::find_if(list.rbegin(), list.rend(), is);
  if (found == list.rend()) return false;
  *found = list.back();
  list.pop_back();
  return true;
}

}  // namespace

void Leases::add_room(ClientConnection client, std::uint64_t object, RequestId request_id) {
  of_[client].rooms.push_back({object, request_id});
  ++open_rooms_;
}

void Leases::remove_room(ClientConnection client, std::uint64_t object) {
  const auto found = of_.find(client);
  if (found == of_.end()) return;
  const auto is = [&](const RoomGrant& room) { return room.object == object; };
  if (remove_one(found->second.rooms, is)) --open_rooms_;
}

std::uint64_t Leases::add(ObjectLease lease) {
  of_[lease.client].leases.push_back(++last_);
  leases_.emplace(last_, std::move(lease));
  ++open_leases_;
  return last_;
}

ObjectLease* Leases::find(ClientConnection client, std::uint64_t number) {
  return const_cast<ObjectLease*>(std::as_const(*this).find(client, number));
}

const ObjectLease* Leases::find(ClientConnection client, std::uint64_t number) const {
  const auto found = leases_.find(number);
  if (found == leases_.end() || found->second.client != client || is_fenced(found->second)) {
    return nullptr;
  }
  return &found->second;
}

ObjectLease Leases::remove(std::uint64_t number) {
  const auto found = leases_.find(number);
  ObjectLease lease = std::move(found->second);
  leases_.erase(found);
  Holdings& holdings = of_.at(lease.client);
  std::erase(holdings.leases, number);
  if (!holdings.lost) --open_leases_;
  return lease;
}

void Leases::remove_entry(ClientConnection client, std::uint64_t entry) {
  const auto found = of_.find(client);
  if (found == of_.end()) return;
  remove_one(found->second.entries, [&](std::uint64_t one) { return one == entry; });
}

const Leases::Holdings* Leases::holdings(ClientConnection client) const {
  const auto found = of_.find(client);
  return found == of_.end() ? nullptr : &found->second;
}

bool Leases::is_fenced(const ObjectLease& lease) const { return of_.at(lease.client).lost; }

std::vector<Leases::RoomGrant> Leases::fence(ClientConnection client) {
  const auto found = of_.find(client);
  if (found == of_.end() || found->second.lost) return {};
  Holdings& holdings = found->second;
  holdings.lost = true;
  std::vector<RoomGrant> rooms = std::exchange(holdings.rooms, {});
  for (const RoomGrant& room : rooms) holdings.fenced.push_back(room.object);
  open_rooms_ -= std::ssize(rooms);
  open_leases_ -= std::ssize(holdings.leases);
  return rooms;
}

std::vector<std::uint64_t> Leases::take_entries(ClientConnection client) {
  const auto found = of_.find(client);
  return found == of_.end() ? std::vector<std::uint64_t>()
                            : std::exchange(found->second.entries, {});
}

std::vector<std::uint64_t> Leases::end(ClientConnection client) {
  const auto found = of_.find(client);
  if (found == of_.end()) return {};
  std::vector<std::uint64_t> fenced = std::move(found->second.fenced);
  of_.erase(found);
  return fenced;
}

}  // namespace tranship::staging
