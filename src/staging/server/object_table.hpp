// The objects of a staging server, by their numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "staging/model/leases.hpp"
#include "staging/model/parts.hpp"

namespace tranship::staging {

/// One object, from the grant of its room on.
struct ServerObject {
  std::string variable;
  std::int64_t version = 0;
  Box box;
  std::int64_t bytes = 0;          ///< In whole units.
  std::uint64_t order = 0;         ///< Of its commit; 0: not committed, so not visible.
  ClientConnection client = 0;     ///< The client that writes it, until its commit, or offers it.
  std::vector<int> index_servers;  ///< As RoomRequest::index_servers.
  int leases = 0;                  ///< Leases that keep it.
  bool discarded = false;          ///< Whether it goes when it is read no more.
  std::int64_t hidden_points = 0;  ///< At least as many of its points as later objects hide.
  Checksum checksum{};
  std::uint64_t step = 0;  ///< As PutRequest::step.
  bool withheld = false;   ///< Whether it is whole, and its step is not yet.
  /// Where it lies that its client offers it; null: it lies on this server.
  std::shared_ptr<const OfferedMemory> offer{};
  bool lost = false;  ///< Whether the client that offers it is lost, and its elements with it.
};

using ObjectTable = std::unordered_map<std::uint64_t, ServerObject>;

}  // namespace tranship::staging
