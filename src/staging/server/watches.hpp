// Who wants to hear of changes of which variable.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "staging/model/leases.hpp"

namespace tranship::staging {

/// Names and owners. Of one owner only the last `names_max` names are kept: who is not told looks
/// again by itself after a while. Not thread-safe.
class Watches {
 public:
  explicit Watches(std::size_t names_max) : names_max_(names_max) {}

  void add(const std::string& name, ClientConnection client);
  /// Those who watch the name, who watch it no more.
  std::set<ClientConnection> take(const std::string& name);
  /// The owner watches nothing any more.
  void drop(ClientConnection client);
  /// Names that somebody watches.
  std::size_t size() const { return by_name_.size(); }

 private:
  void remove(const std::string& name, ClientConnection client);

  std::size_t names_max_;
  std::map<std::string, std::set<ClientConnection>> by_name_;
  std::unordered_map<ClientConnection, std::vector<std::string>> by_client_;  ///< the oldest first
};

}  // namespace tranship::staging
