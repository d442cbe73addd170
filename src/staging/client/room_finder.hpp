// Choosing the server that stores an object: the preferred one, or one with memory to spare.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "staging/client/request_sender.hpp"

namespace tranship::staging {

/// An object that is being put: its room, and the servers that index it.
struct PreparedPut {
  PutRequest request;
  int primary = 0;
  std::uint64_t object = 0;
  Range range;               ///< Of the primary's memory.
  bool overflow = false;     ///< Whether the primary is an overflow server.
  bool ready = true;         ///< Whether it may be written; otherwise only after take_pages().
  bool stale = false;        ///< The variable was deleted meanwhile: the put begins again.
  std::vector<int> indexed;  ///< Other servers that index it.
  std::uint64_t order_before = 0;
  std::int64_t end_ns = 0;                         ///< End of the put's time.
  std::optional<OfferedMemory> offer{};            ///< Where it lies if this client offers it.
  SentRequests<protocol::Index> index_requests{};  ///< to those servers
};

/// Finds room for objects. Any thread may call any member. Cost: one request while the preferred
/// server has room, and up to ten each time that it has none.
class RoomFinder {
 public:
  explicit RoomFinder(RequestSender& requester) : requester_(requester) {}

  /// Asks the `candidates`, the preferred server first, until one grants room; waits while all are
  /// full. Sets the primary, the object and its range; or `stale`. Only errors of the preferred
  /// server are the put's.
  /// `index_servers`: Those of the box.
  /// @error what the preferred server says; timeout; cancelled
  /// `look`: Called before each wait; an error of it ends the search.
  Status find(
      const std::vector<int>& candidates, const std::vector<int>& index_servers, PreparedPut& put,
      std::int64_t end_ns, const std::function<Status()>& look = [] { return Status{}; });

  /// Begins an object that this client offers, on the preferred server. Sets what find() does, but
  /// for the range.
  Status begin_offer(int preferred, PreparedPut& put);

  /// Asks the other index servers of the box to index the object, all at once.
  Status index(const std::vector<int>& index_servers, PreparedPut& put);
  /// Waits until they have; or sets `stale`.
  Status finish_index(PreparedPut& put);

 private:
  /// Asks one server. Returns false, and the reason `why`, if it has no room.
  Result<bool> ask(int server, Effort effort, const std::vector<int>& index_servers,
                   PreparedPut& put, std::string& why);

  RequestSender& requester_;
};

}  // namespace tranship::staging
