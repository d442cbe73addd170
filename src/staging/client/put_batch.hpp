// Puts of objects of many variables whose requests leave together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "staging/client/batched_requests.hpp"
#include "staging/client/known_variables.hpp"
#include "staging/client/put_progress.hpp"
#include "staging/client/room_finder.hpp"

namespace tranship::staging {

/// Puts objects as Catalog::begin() and commit() do, in as many round trips for all of them as for
/// one. One thread at a time may call members.
class PutBatch {
 public:
  /// One object for which there is room.
  struct Begun {
    std::size_t number = 0;  ///< of its request
    PreparedPut put{};
    Checksum checksum{};  ///< of its elements, for commit()
    std::string path{};   ///< How they were copied, for the primary's statistics.
  };

  PutBatch(RequestSender& requester, const Distribution& distribution, KnownVariables& known,
           PutProgress& progress, std::int64_t end_ns)
      : requester_(requester),
        distribution_(distribution),
        known_(known),
        progress_(progress),
        indexes_(requester, end_ns),
        end_ns_(end_ns) {}
  PutBatch(const PutBatch&) = delete;
  PutBatch& operator=(const PutBatch&) = delete;
  /// Gives back what was begun, and not committed.
  ~PutBatch() { give_back_all(); }

  /// Finds room for the objects at their preferred servers, without waiting for it.
  /// @error as Catalog::begin(); then all is given back
  Status begin(std::span<const PutRequest> requests);
  /// Those for which there is room, in the order of their requests.
  std::span<Begun> begun() { return begun_; }
  /// Makes them visible. @error as Catalog::commit(): some may be visible then
  Status commit();
  /// The numbers of the requests that have to be put one by one, in their order: their servers are
  /// full, or their variables were deleted meanwhile, or occur twice. Known after commit().
  const std::vector<std::size_t>& left() const { return left_; }

 private:
  Status declare(std::span<const PutRequest> requests);
  Status find_room(std::span<const PutRequest> requests);
  Status index();
  Status finish_index();
  Status commit_all(RequestSender::NamedOrphans& orphans);
  void tell_parts(const std::vector<bool>& finishes);
  void confirm_all(RequestSender::NamedOrphans& orphans);
  void give_back(Begun& one);
  void give_back_all();

  RequestSender& requester_;
  const Distribution& distribution_;
  KnownVariables& known_;
  PutProgress& progress_;
  std::vector<std::optional<KnownVariable>> variables_;  ///< By request; of those in left_, none.
  std::vector<Begun> begun_;
  BatchedRequests<protocol::Index> indexes_;
  /// The place in begun_, and the receiver, of each request in indexes_.
  std::vector<std::pair<std::size_t, int>> indexed_;
  std::vector<std::size_t> left_;
  std::int64_t end_ns_;
};

}  // namespace tranship::staging
