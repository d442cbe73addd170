// What one client has put of each variable, and when it has finished a version.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace tranship::staging {

/// Guesses when this client has finished a version, since no call says how many boxes a version
/// gets: when it has put as many boxes of it as of any of the last versions, or has gone on to a
/// higher one. Remembers 1024
/// variables and the last versions of each. Any thread may call any member.
class PutProgress {
 public:
  using Interval = std::pair<std::int64_t, std::int64_t>;  ///< Versions, both inclusive.

  /// From now on the versions of each variable rise: a lower version counts as finished.
  void let_rise() { rises_ = true; }

  /// Records that a put of a version begins.
  void begin(const std::string& variable, std::int64_t version);
  /// Records that the put is about to become visible. Returns whether the client has then finished
  /// the version.
  bool finishes(const std::string& variable, std::int64_t version);
  /// Records that the put is visible. Returns earlier versions that count as finished from now on.
  std::vector<Interval> commit(const std::string& variable, std::int64_t version, bool finished);
  /// Records that the put has failed.
  void give_up(const std::string& variable, std::int64_t version);
  void forget(const std::string& variable);

 private:
  struct Version {
    int begun = 0;  ///< Puts that have not ended.
    int put = 0;    ///< Boxes that are visible.
    bool finished = false;
  };
  struct Variable {
    std::map<std::int64_t, Version> versions;
    bool any = false;          ///< Whether a box is visible.
    std::int64_t highest = 0;  ///< The highest version with a visible box.
  };

  bool rises_ = false;
  std::mutex mutex_;
  std::map<std::string, Variable> variables_;
};

}  // namespace tranship::staging
