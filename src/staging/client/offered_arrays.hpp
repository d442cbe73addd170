// The arrays that other clients offer, as this one reads them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "engine/engine.hpp"
#include "engine/processes.hpp"
#include "staging/client/catalog.hpp"
#include "staging/protocol/connect.hpp"

namespace tranship::staging {

/// Connects to producers, and looks their arrays up. Remembers the last arrays, so that what is
/// mapped of a producer's memory stays mapped. Any thread may call any member.
class OfferedArrays {
 public:
  explicit OfferedArrays(Catalog& catalog) : catalog_(catalog) {}

  struct Wanted {
    const LeasedBox& held;
    const StoredObject& object;
    Patience patience;
    std::int64_t end_ns = 0;
  };
  /// Returns the array of an object. It has the object's shape, and elements of its type.
  /// @error peer_lost if its producer has exited or cannot be reached; timeout if it does not
  ///        answer; io if its array is another one than was offered
  Result<Array> find(const std::shared_ptr<Processes>& processes, const Wanted& wanted);
  /// Returns why a copy of a leased box has failed: it names the object, and the producer, if one
  /// that offers a part of it can be read no more.
  Error why_failed(const Processes& processes, const LeasedBox& held, const Error& error,
                   std::int64_t end_ns);
  /// Forgets all arrays, and disconnects.
  void close(Processes& processes);

 private:
  struct Known {
    Array array;
    fabric::PeerId peer{};
  };
  struct Connecting;
  struct Exported {
    fabric::PeerId peer{};
    std::string name;
  };
  static Result<Array> look_up(const std::shared_ptr<Processes>& processes,
                               const Exported& exported, const Patience& patience);
  bool is_connected(const Processes& processes, const std::string& contact);
  static bool is_usable(const Processes& processes, const Known& known);
  std::optional<Known> known_array(const Processes& processes, const StoredObject& object);
  Result<fabric::PeerId> peer(const std::shared_ptr<Processes>& processes,
                              const std::string& contact, const Patience& patience);
  Result<std::optional<fabric::PeerId>> known_peer(const Processes& processes,
                                                   const std::string& contact,
                                                   const Patience& patience);

  Catalog& catalog_;
  std::mutex mutex_;                                       ///< Guards what follows.
  std::map<std::pair<int, std::uint64_t>, Known> arrays_;  ///< By primary and object.
  std::map<std::string, fabric::PeerId> peers_;            ///< By contact.
  std::set<std::string> connecting_;                       ///< Contacts to which a thread connects.
  std::condition_variable connected_;                      ///< One of them ends.
};

}  // namespace tranship::staging
