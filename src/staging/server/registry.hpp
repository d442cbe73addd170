// Records of a metadata server: type, dimensions, cells and producers of variables.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "staging/model/by_name.hpp"
#include "staging/model/limits.hpp"
#include "staging/model/requests.hpp"
#include "staging/model/variable.hpp"
#include "staging/model/version_set.hpp"

namespace tranship::staging {

/// The variables of which this server is the metadata server. Not thread-safe. Costs are
/// logarithms.
class Registry {
 public:
  /// `cell_bytes`: Least size of a cell.
  explicit Registry(std::int64_t cell_bytes = Cells::bytes_least, const Limits& limits = {})
      : cell_bytes_(cell_bytes), limits_(limits) {}

  /// Defines a variable: the request's box is its domain, which a later definition may enlarge. The
  /// variable exists from the first put on. `writers`: Clients that will put to it; 0: unknown.
  /// @error invalid_argument if it does not fit the variable, or other definitions; out_of_memory
  /// if
  ///        there are too many variables
  Status define(const PutRequest& domain, int writers);

  /// Records that `client` will put to the variable, which exists from then on. A client counts
  /// once, on all its connections.
  /// `empty`: Whether the put has no elements; it may lie anywhere.
  /// @error as define()
  Result<VariableMetadata> declare(const ClientId& client, const PutRequest& request,
                                   bool empty = false);

  /// Versions of a variable in which a client has taken part. It expects no other of it.
  struct Part {
    std::int64_t first = 1;
    std::int64_t last = 0;  ///< Below `first`: no version.
    bool finished = true;   ///< Whether it puts no more to them.
    bool box = false;       ///< Whether it has put a box with elements.
  };
  /// Records that a client has taken part in versions: it has put to them, or has nothing in them.
  /// It counts among those that put to the variable, which need not exist yet.
  /// @error as define()
  Status take_part(const ClientId& client, const std::string& variable, const Part& part);
  /// Whom a version waits for.
  struct Awaited {
    int writers = 0;     ///< Connected clients that have not taken part.
    int fresh = 0;       ///< Those of them that have put no box to the variable yet.
    bool never = false;  ///< One has ended, or died, that had not taken part.
    bool complete() const { return writers == 0 && !never; }
  };
  /// Returns whom a version waits for: each client takes part in the versions from its first one
  /// on, up to those that were there when it ended. `finished`: Whether all must have finished it.
  Awaited awaited(const std::string& variable, std::int64_t version, bool finished) const;

  /// Deletes a variable, its definition and its producers. Returns the number of the deletion, and
  /// whether there was anything of the variable.
  std::pair<std::uint64_t, bool> remove(const std::string& variable);

  /// Returns the metadata of a variable; nothing if no client has declared it.
  std::optional<VariableMetadata> metadata(const std::string& variable) const;
  const ByName<VariableMetadata>& all() const { return variables_; }

  /// Records that the client's last connection is lost. It counts as dead unless it comes back, or
  /// gone() says that it has ended. Returns the variables that it put to.
  std::set<std::string> lost(const ClientId& client);
  /// Records that the client has connected again.
  void came_back(const ClientId& client);
  /// Records that the client has ended (`cleanly`) or died. Returns the variables that it put to.
  std::set<std::string> gone(const ClientId& client, bool cleanly);

 private:
  struct Definition {
    PutRequest domain;
    int writers = 0;
  };

  /// A connected client that puts to a variable.
  struct Writer {
    std::int64_t first = INT64_MAX;  ///< Its first version.
    bool box = false;                ///< Whether it has put a box with elements.
    VersionSet took_part;
    VersionSet finished;
  };
  struct Writers {
    std::map<ClientId, Writer> connected;           ///< Those included whose connections are lost.
    VersionSet missed{VersionSet::Excess::forget};  ///< By clients that are gone.
    std::int64_t highest = INT64_MIN;               ///< The highest version of which one took part.
    int came = 0;
    int deaths = 0;
  };

  Status check(const PutRequest& request) const;
  Status check_room(const std::string& variable) const;
  void count_early(const std::string& variable, VariableMetadata& metadata) const;
  Writer& writer_of(const ClientId& client, const std::string& variable);
  void end(const ClientId& client, const std::string& variable, bool cleanly);

  std::int64_t cell_bytes_;
  Limits limits_;
  std::uint64_t number_ = 0;  ///< Of the last creation or deletion.
  std::map<std::string, Definition> definitions_;
  ByName<VariableMetadata> variables_;
  std::map<std::string, Writers> writers_;  ///< Of variables that may not exist yet, too.
  struct Producer {
    std::set<std::string> variables;
    bool lost = false;
  };
  std::map<ClientId, Producer> producers_;
};

}  // namespace tranship::staging
