// Other processes, and the arrays that they export.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "array.hpp"
#include "error.hpp"
#include "notice.hpp"
#include "peers.h"

namespace tranship {

/// How an instance is exported.
struct ExportOptions {
  /// Whether other processes may send notices of their copies to and from the instance. Set it
  /// where the program reads them by Engine::notices() or Peer::notices().
  bool notices = false;
};

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

  /// Returns the notices that the peer's process has sent, as Engine::notices() returns those of
  /// all. The peer has connected to this process, too.
  /// @throws as Engine::notices(); PeerLost and Closed if the peer's process exited or has closed
  ///         its engine, and all that it has sent were returned
  std::vector<Notice> notices(Seconds timeout = Seconds(0)) const {
    tranship_notices* taken = nullptr;
    detail::check(tranship_peer_notices(handle(), timeout.count(), &taken));
    return detail::c_notices(taken);
  }

  tranship_peer* handle() const noexcept { return handle_.get(); }

 private:
  std::unique_ptr<tranship_peer, detail::Free<tranship_peer_free>> handle_;
  Seconds timeout_;
};

}  // namespace tranship
