// The arrays that a client offers: they stay where they are, and others copy them from there.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/processes.hpp"
#include "staging/client/catalog.hpp"

namespace tranship::staging {

/// A client's number for one of its offers. 0: one that has ended.
using OfferId = std::uint64_t;

/// Exports arrays for readers, and takes their memory back when their offers have ended: the server
/// has let go of the object, and no process reads the array any more. Any thread may call any
/// member.
class Offers {
 public:
  explicit Offers(Catalog& catalog) : catalog_(catalog) {}

  /// Exports an array, which nobody finds yet.
  /// @error invalid_argument if this process's engine accepts no connections, or the array cannot
  ///        be exported
  Result<OfferedMemory> share(Processes& processes, const Array& array);
  /// Ends an export of which no object was made. Returns why not, with a hint if the array is being
  /// read all the same.
  Error unshare(Processes& processes, const OfferedMemory& memory, const Error& why);
  /// Adds an offer whose object was committed.
  OfferId add(const PreparedPut& put);
  /// Takes back the memory of all offers that have ended. Waits for no process that the servers
  /// know of.
  void sweep(Processes& processes, std::int64_t end_ns);
  /// Waits until an offer has ended, which is withdrawn before if `withdraw` says so.
  /// @error timeout, which says who reads it
  Status end(Processes& processes, OfferId offer, bool withdraw, std::int64_t end_ns);
  /// Withdraws all offers, and waits until no get reads them.
  /// @error timeout, which says who reads one
  Status withdraw_all(std::int64_t end_ns);
  /// Ends the exports of all offers that are left. Copies of other processes that go on keep the
  /// memory for so long, and those to come fail.
  /// @error timeout if a process may still read an array after that
  Status take_back_all(Processes& processes, std::int64_t end_ns);
  bool empty() const {
    const std::lock_guard lock(mutex_);
    return offers_.empty();
  }

 private:
  struct OpenOffer {
    int primary = 0;
    std::uint64_t object = 0;
    std::string name;  ///< Of the export.
    protocol::IndexEntryId entry;
    std::vector<int> indexed;
    bool withdrawn = false;  ///< Whether no index server names it any more.
  };

  std::optional<OpenOffer> open_offer(OfferId offer) const;
  std::map<int, std::vector<OfferId>> by_server() const;
  Status wait_until_unread(int server, const std::vector<std::uint64_t>& objects,
                           std::int64_t end_ns);
  Result<std::string> ask(OfferId offer, const OpenOffer& open, bool withdraw, std::int64_t end_ns);
  Status take_back(Processes& processes, OfferId offer, const std::string& name,
                   std::int64_t end_ns);

  Catalog& catalog_;
  mutable std::mutex mutex_;  ///< Guards what follows.
  std::map<OfferId, OpenOffer> offers_;
  OfferId last_ = 0;
};

}  // namespace tranship::staging
