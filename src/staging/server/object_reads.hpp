// Reading clients: leases on objects of a server, which keep the objects and their memory.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <variant>
#include <vector>

#include "staging/model/leases.hpp"
#include "staging/model/limits.hpp"
#include "staging/model/requests.hpp"
#include "staging/model/residency.hpp"
#include "staging/server/object_table.hpp"

namespace tranship::staging {

/// Grants and ends leases. An object that was discarded is dropped with its last lease. Works on
/// the store's table, memory and list of leases, which must outlive it. Costs are linear in the
/// objects of one lease. Not thread-safe.
class ObjectReads {
 public:
  struct Options {
    Limits limits{};
    std::function<std::int64_t()> now_ns{};  ///< Clock for the age of leases; empty: no ages.
  };
  ObjectReads(Options options, ObjectTable& objects, Residency& residency, Leases& leases)
      : options_(std::move(options)), objects_(objects), residency_(residency), leases_(leases) {}

  /// Checks whether the client may have one more lease.
  /// @error out_of_memory if it has too many, or one for too long
  Status check(ClientConnection client) const;
  /// Leases objects, pins those that are in memory, and returns the lease's number.
  std::uint64_t grant(ClientConnection client, RequestId request_id,
                      std::vector<std::uint64_t> objects);
  /// As ObjectStore::in_memory().
  Result<std::pair<Box, Range>> in_memory(ClientConnection client, std::uint64_t lease,
                                          std::uint64_t object);
  /// As ObjectStore::recall().
  Result<std::variant<Range, Waiting>> recall(ClientConnection client, std::uint64_t lease,
                                              std::uint64_t object);
  /// @error not_found if the client has no such lease
  Status release(ClientConnection client, std::uint64_t lease);
  /// Ends the client's leases that were granted to that request, and returns their numbers.
  std::vector<std::uint64_t> undo(ClientConnection client, RequestId request_id);

  /// Reduces the leases of a lost client to the objects that are pinned in memory for it: it may
  /// still read those, and nothing else.
  void lose(ClientConnection client);
  /// Ends all leases of a client.
  void end_all(ClientConnection client);

  /// Returns whether an object has lost its last lease since the last call: it may be discarded to
  /// make room now.
  bool take_idle() { return std::exchange(idle_, false); }
  /// Returns the offers, and their clients, that have ended with their last lease since the last
  /// call.
  std::vector<std::pair<ClientConnection, std::uint64_t>> take_ended_offers() {
    return std::exchange(ended_offers_, {});
  }

 private:
  void unpin(ObjectLease& lease);
  void end(std::uint64_t lease);
  void let_go(std::uint64_t object);

  Options options_;
  ObjectTable& objects_;
  Residency& residency_;
  Leases& leases_;
  bool idle_ = false;
  std::vector<std::pair<ClientConnection, std::uint64_t>> ended_offers_;
};

}  // namespace tranship::staging
