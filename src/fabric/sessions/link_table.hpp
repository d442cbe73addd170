// The links that this process has made.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/error.hpp"
#include "fabric/links/remote_array.hpp"

namespace tranship::fabric {

/// The links to the processes to which this one has connected, by peer. A link that was lost stays,
/// with the reason, until it is removed or another one is added. Threads: all.
class LinkTable {
 public:
  /// Adds a link, whose `peer` it sets to an id that no other link has had.
  void add(const std::shared_ptr<Link>& link);

  /// @error closed if the connection has ended; invalid_argument if there never was such a peer
  Result<std::shared_ptr<Link>> find(PeerId peer) const;

  void remove(PeerId peer);

 private:
  mutable std::mutex mutex_;  ///< guards all following members
  std::map<PeerId, std::shared_ptr<Link>> links_;
  std::uint64_t last_peer_ = 0;
};

}  // namespace tranship::fabric
