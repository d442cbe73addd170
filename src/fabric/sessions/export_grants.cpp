#include "fabric/sessions/export_grants.hpp"

#include <utility>

namespace tranship::fabric {
namespace {

Error not_found(const ExportTable& exports, bool readable) {
  std::string names;
  for (const auto& name : exports.names()) {
    if (names.size() < 200) names += (names.empty() ? "'" : ", '") + name + "'";
  }
  const std::string why = readable ? "nothing is exported by that name" : "no name was given";
  return {ErrorCode::not_found, why, "there is " + (names.empty() ? "nothing" : names)};
}

}  // namespace

ExportGrants::Found ExportGrants::look_up(std::span<const std::byte> body) {
  MessageReader in(body);
  const std::string name = in.text();
  Found found;
  found.held = in.ok() ? exports_->find(name) : nullptr;
  if (!found.held) {
    found.reply.error = not_found(*exports_, in.ok());
    return found;
  }
  const Export& one = *found.held;
  describe(one, found);
  // The export may have been withdrawn meanwhile, with its leases ended before this one was
  // granted.
  if (exports_->find(name) != found.held) {
    leases_.end(one.index());
    registrations_.erase(one.index());
  }
  return found;
}

void ExportGrants::describe(const Export& one, Found& found) {
  const ExportedArray& array = one.array();
  LookupReply& reply = found.reply;
  reply.id = one.id();
  reply.index = one.index();
  reply.bytes = array.bytes;
  reply.writable = array.writable ? 1 : 0;
  reply.description = array.description;
  reply.memory_name = array.memory_name;
  reply.takes_notices = array.takes_notices ? 1 : 0;
  const bool plain = array.place.attachment == nullptr;
  const bool mapped = mode_ == LinkMode::shared && array.memory;
  if (carrier_ && plain && !mapped) grant_key(one, reply);
  reply.plain = plain ? 1 : 0;
  if (mode_ != LinkMode::shared || (!plain && array.ipc_handle.empty())) return;
  if (plain) reply.address = reinterpret_cast<std::uint64_t>(array.place.address);
  reply.ipc_handle = array.ipc_handle;
  leases_.grant(reply.index, reply.id);
  if (!array.memory) return;
  found.memory = array.memory->descriptor();
  reply.memory_bytes = array.memory->bytes();
  reply.memory_offset = array.place.address - array.memory->data();
}

/// Grants the requester its own key to an export, which is revoked when the requester is lost.
/// Memory that the carrier cannot reach goes through slots.
void ExportGrants::grant_key(const Export& one, LookupReply& reply) {
  const ExportedArray& array = one.array();
  if (array.bytes == 0) return;
  CarriedExport& carried = registrations_[one.index()];
  if (!carried.registration || carried.id != one.id()) {
    carried = {};
    auto made = carrier_->register_memory(array.place.address, array.bytes);
    if (!made) return;
    carried = {one.id(), std::move(*made)};
  }
  reply.carrier_key = carried.registration->key();
  reply.carrier_address = reinterpret_cast<std::uint64_t>(array.place.address);
  if (mode_ == LinkMode::shared) leases_.grant(one.index(), one.id());
}

bool ExportGrants::revoke(int index, std::uint64_t id) {
  if (leases_.in_use(index)) return true;
  const auto found = registrations_.find(index);
  if (found != registrations_.end() && found->second.id == id) registrations_.erase(found);
  return false;
}

LeaseGrants ExportGrants::end() {
  registrations_.clear();  // a card refuses its keys from here on
  return std::move(leases_);
}

std::vector<std::byte> encode_names(const ExportTable& exports) {
  MessageWriter out;
  const auto names = exports.names();
  out.add(static_cast<std::uint32_t>(names.size()));
  for (const auto& name : names) out.text(name);
  return out.bytes();
}

}  // namespace tranship::fabric
