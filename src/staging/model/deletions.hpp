// Which variables were deleted, so that nobody goes on with what he knew of one before.
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

/// What a client knows of a variable's time. The keeper of a variable counts creations and
/// deletions of all its variables with one number.
struct Life {
  std::uint64_t life = 0;   ///< the number of the variable's creation
  std::uint64_t stamp = 0;  ///< the keeper's number when the client asked it; 0: it has not asked
};

/// The last deletions that a server was told of.
/// Law: stale() of whoever asked the keeper before a variable was deleted, and not since. Of
/// deletions that are no longer remembered one by one, it says so of any variable of that keeper:
/// who asks anew may go on. Costs nothing before the first deletion. Not thread-safe.
class Deletions {
 public:
  explicit Deletions(int servers, std::size_t names_max = 4096);

  /// The variable's keeper has deleted it, with that number.
  void add(const std::string& variable, std::uint64_t number);
  bool stale(const std::string& variable, const Life& life) const;
  std::size_t size() const { return names_.size(); }

 private:
  Distribution distribution_;
  std::size_t names_max_;
  std::unordered_map<std::string, std::uint64_t> names_;
  std::deque<std::pair<std::string, std::uint64_t>> order_;
  std::vector<std::uint64_t> newest_;     ///< by keeper
  std::vector<std::uint64_t> forgotten_;  ///< the newest that is no longer in names_, by keeper
};

}  // namespace tranship::staging
