// Which variables were deleted, so that no client goes on with outdated metadata.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "staging/model/distribution.hpp"

namespace tranship::staging {

/// Tells apart variables of one name that were created one after the other. A metadata server
/// counts the creations and deletions of all its variables with one number.
struct Incarnation {
  std::uint64_t number = 0;  ///< The number of the variable's creation.
  std::uint64_t stamp = 0;   ///< The metadata server's number when the client asked it; 0: never.
};

/// The last deletions that were reported to a server.
/// Law: stale() is true for a client that asked the metadata server before a variable was deleted,
/// and not since. For deletions that are no longer remembered one by one, it is true for all
/// variables of that metadata server: a client that asks again may go on. Costs nothing before the
/// first deletion. Not thread-safe.
class Deletions {
 public:
  explicit Deletions(int servers, std::size_t names_max = 4096);

  /// Records that the variable's metadata server has deleted it, with that number.
  void add(const std::string& variable, std::uint64_t number);
  bool stale(const std::string& variable, const Incarnation& incarnation) const;
  std::size_t size() const { return names_.size(); }

 private:
  Distribution distribution_;
  std::size_t names_max_;
  std::unordered_map<std::string, std::uint64_t> names_;
  std::deque<std::pair<std::string, std::uint64_t>> order_;
  /// By metadata server: its newest deletion, and the newest one that is no longer in names_.
  std::vector<std::uint64_t> newest_;
  std::vector<std::uint64_t> forgotten_;
};

}  // namespace tranship::staging
