// Which clients wait for changes of which variables.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "staging/model/leases.hpp"

namespace tranship::staging {

/// Names by client, and clients by name. Only the last `names_max` names of a client are kept: a
/// client that gets no notice looks again by itself after a while. Not thread-safe.
class Watches {
 public:
  explicit Watches(std::size_t names_max) : names_max_(names_max) {}

  void add(const std::string& name, ClientConnection client);
  /// Removes and returns the clients that watch the name.
  std::set<ClientConnection> take(const std::string& name);
  /// Removes a client.
  void drop(ClientConnection client);
  /// Returns the number of names that are watched.
  std::size_t size() const { return by_name_.size(); }

 private:
  void remove(const std::string& name, ClientConnection client);

  std::size_t names_max_;
  std::map<std::string, std::set<ClientConnection>> by_name_;
  std::unordered_map<ClientConnection, std::vector<std::string>> by_client_;  ///< The oldest first.
};

}  // namespace tranship::staging
