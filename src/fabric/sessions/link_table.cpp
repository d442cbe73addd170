#include "fabric/sessions/link_table.hpp"

namespace tranship::fabric {

void LinkTable::add(const std::shared_ptr<Link>& link) {
  std::lock_guard lock(mutex_);
  std::erase_if(links_, [](const auto& one) { return one.second->requester->lost(); });
  link->peer = PeerId{++last_peer_};
  links_[link->peer] = link;
}

Result<std::shared_ptr<Link>> LinkTable::find(PeerId peer) const {
  std::lock_guard lock(mutex_);
  if (const auto found = links_.find(peer); found != links_.end()) return found->second;
  if (peer.value >= 1 && peer.value <= last_peer_) {
    return Error{ErrorCode::closed, "this connection has ended", "connect again"};
  }
  return Error{ErrorCode::invalid_argument, "there is no such connection"};
}

void LinkTable::remove(PeerId peer) {
  std::lock_guard lock(mutex_);
  links_.erase(peer);
}

}  // namespace tranship::fabric
