// Other processes, and the arrays that they export.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "array.hpp"
#include "error.hpp"
#include "peers.h"

namespace tranship {

/// A connection to another engine, which Engine::connect() makes. Destroying it ends the
/// connection: copies to and from the peer's arrays fail then. Any thread may call any member.
class Peer {
 public:
  /// Takes ownership of a handle of the C API. `timeout`: most that a question to the peer takes.
  Peer(tranship_peer* handle, Seconds timeout) noexcept : handle_(handle), timeout_(timeout) {}

  /// Returns the array that the peer exports by this name, one end of a copy.
  /// @throws NotFound; PeerLost; Timeout; Closed after the engine's close
  Instance operator[](const std::string& name) const {
    tranship_instance* made = nullptr;
    detail::check(tranship_peer_lookup(handle(), name.c_str(), timeout_.count(), &made));
    return Instance(made);
  }

  /// Returns the names of the arrays that the peer exports now.
  /// @throws PeerLost; Timeout; Closed
  std::vector<std::string> names() const {
    tranship_names* given = nullptr;
    detail::check(tranship_peer_names(handle(), timeout_.count(), &given));
    const std::unique_ptr<tranship_names, detail::Free<tranship_names_free>> held(given);
    std::vector<std::string> found;
    for (std::int64_t k = 0; k < tranship_names_size(given); ++k) {
      found.emplace_back(tranship_names_entry(given, k));
    }
    return found;
  }

  tranship_peer* handle() const noexcept { return handle_.get(); }

 private:
  std::unique_ptr<tranship_peer, detail::Free<tranship_peer_free>> handle_;
  Seconds timeout_;
};

}  // namespace tranship
