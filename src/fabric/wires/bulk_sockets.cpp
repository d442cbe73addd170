#include "fabric/wires/bulk_sockets.hpp"

#include <algorithm>
#include <utility>

#include "fabric/wires/socket_connection.hpp"

namespace tranship::fabric {

void BulkSockets::begin_to_join(const Pointer& socket) {
  std::lock_guard lock(mutex_);
  joining_.push_back(socket);
}

void BulkSockets::join(const Pointer& socket) {
  std::lock_guard lock(mutex_);
  std::erase(joining_, socket);
  if (std::find(joined_.begin(), joined_.end(), socket) == joined_.end()) joined_.push_back(socket);
}

void BulkSockets::give_up(const Pointer& socket) {
  std::lock_guard lock(mutex_);
  std::erase(joining_, socket);
}

bool BulkSockets::has_joined(const Pointer& socket) const {
  std::lock_guard lock(mutex_);
  return std::find(joined_.begin(), joined_.end(), socket) != joined_.end();
}

bool BulkSockets::joining() const {
  std::lock_guard lock(mutex_);
  return !joining_.empty();
}

std::vector<BulkSockets::Pointer> BulkSockets::all() const {
  std::lock_guard lock(mutex_);
  std::vector<Pointer> all = joined_;
  all.insert(all.end(), joining_.begin(), joining_.end());
  return all;
}

void BulkSockets::note(std::uint32_t slot, Pointer brought) {
  std::lock_guard lock(mutex_);
  if (brought) {
    brought_by_[slot] = std::move(brought);
  } else {
    brought_by_.erase(slot);
  }
}

BulkSockets::Pointer BulkSockets::way_of(const WireMessage& message) {
  std::lock_guard lock(mutex_);
  if (message.header.type == MessageType::answered) {
    const auto found = brought_by_.extract(message.header.slot);
    if (!found.empty()) return found.mapped();
  }
  if (message.bulk.empty() || joined_.empty()) return nullptr;
  return *std::min_element(joined_.begin(), joined_.end(), [](const auto& a, const auto& b) {
    const bool a_stands = a->phase == SocketConnection::Phase::open;
    const bool b_stands = b->phase == SocketConnection::Phase::open;
    return a_stands != b_stands ? a_stands : a->writer.backlog() < b->writer.backlog();
  });
}

}  // namespace tranship::fabric
