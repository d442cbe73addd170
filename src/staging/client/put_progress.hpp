// What one client has put of each variable, and when it has finished a version.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace tranship::staging {

/// Nobody says how many boxes a version gets. A client has finished a version when it has put as
/// many boxes of it as of any of the last versions, or has gone on to a higher one. Remembers 1024
/// variables and the last versions of each. Any thread may call any member.
class PutProgress {
 public:
  using Interval = std::pair<std::int64_t, std::int64_t>;  ///< Versions, both inclusive.

  /// Says that the versions of each variable rise: a version that was passed by is finished.
  void let_rise() { rises_ = true; }

  /// A put of a version begins.
  void begin(const std::string& variable, std::int64_t version);
  /// It is about to become visible. Returns whether the client has finished the version then.
  bool finishes(const std::string& variable, std::int64_t version);
  /// It is visible. Returns the versions that were left unfinished, and are finished now.
  std::vector<Interval> commit(const std::string& variable, std::int64_t version, bool finished);
  /// It failed.
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
    std::int64_t highest = 0;  ///< The highest version of which one is.
  };

  bool rises_ = false;
  std::mutex mutex_;
  std::map<std::string, Variable> variables_;
};

}  // namespace tranship::staging
