// Index entries: boxes of objects of other servers, and the orphans among these objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "staging/model/requests.hpp"

namespace tranship::staging {

/// The box of an object of another server.
struct IndexEntry {
  enum class State {
    pending,    ///< Its client is putting the object.
    confirmed,  ///< The object was committed.
    withheld,   ///< The object was committed, and its step is not whole yet.
    doubtful    ///< Its client is lost: only the primary knows whether the object was committed.
  };
  RemoteObject where;
  Box box;
  ClientConnection client = 0;
  State state = State::pending;
  std::string variable;
  std::int64_t version = 0;
  std::uint64_t order = 0;  ///< Of its commit; 0: unknown here.
  std::uint64_t step = 0;   ///< As PutRequest::step.
};

/// Entries by number. An entry whose version is discarded, or whose object is hidden whole, leaves
/// an orphan if its object lies on an overflow server, which cannot learn of it in another way.
/// Costs are constant. Not thread-safe.
class IndexEntries {
 public:
  /// Bound of the orphans to report and of the entries that may become orphans.
  static constexpr std::size_t overflow_max = 1 << 16;

  std::size_t size() const { return entries_.size(); }
  /// Returns whether there is room for one more entry of an object on an overflow server.
  bool has_room_for_overflow() const { return overflow_ + orphans_.size() < overflow_max; }

  void add(std::uint64_t number, IndexEntry entry);
  /// Returns an entry that is there.
  IndexEntry& at(std::uint64_t number) { return entries_.at(number); }
  const IndexEntry& at(std::uint64_t number) const { return entries_.at(number); }
  bool contains(std::uint64_t number) const { return entries_.contains(number); }
  /// Removes an entry whose object was given up.
  void remove(std::uint64_t number);
  /// Removes an entry whose version was discarded, or whose object is hidden.
  void discard(std::uint64_t number);

  /// Removes and returns orphans, at most `count_max`.
  std::vector<Orphan> take_orphans(std::size_t count_max);

 private:
  std::unordered_map<std::uint64_t, IndexEntry> entries_;
  std::size_t overflow_ = 0;  ///< Entries of objects on overflow servers.
  std::vector<Orphan> orphans_;
};

}  // namespace tranship::staging
