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
  /// @error as define()
  Result<VariableMetadata> declare(const ClientId& client, const PutRequest& request);

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

  Status check(const PutRequest& request) const;

  std::int64_t cell_bytes_;
  Limits limits_;
  std::uint64_t number_ = 0;  ///< Of the last creation or deletion.
  std::map<std::string, Definition> definitions_;
  ByName<VariableMetadata> variables_;
  struct Producer {
    std::set<std::string> variables;
    bool lost = false;
  };
  std::map<ClientId, Producer> producers_;
};

}  // namespace tranship::staging
