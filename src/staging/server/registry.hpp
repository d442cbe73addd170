// What the metadata server of a variable knows: type, dimensions, cells, and who puts to it.
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

/// Not thread-safe. Costs are logarithms.
class Registry {
 public:
  /// Cells have at least so many bytes.
  explicit Registry(std::int64_t cell_bytes = Cells::bytes_least, const Limits& limits = {})
      : cell_bytes_(cell_bytes), limits_(limits) {}

  /// Says what the variable will be: the request's box is its domain, which a later definition may
  /// enlarge. It begins to exist when somebody puts to it. `writers`: how many will; 0: unknown.
  /// @error invalid_argument if it does not fit the variable, or other definitions; out_of_memory
  /// if
  ///        there are too many variables
  Status define(const PutRequest& domain, int writers);

  /// Says that `client` will put to the variable, which begins to exist with that. It counts once,
  /// however often it says so, and whatever connections it has.
  /// @error as define()
  Result<VariableMetadata> declare(const ClientId& client, const PutRequest& request);

  /// Forgets a variable, its definition, and who put to it. Returns the number of the deletion, and
  /// whether there was anything of it.
  std::pair<std::uint64_t, bool> remove(const std::string& variable);

  /// Nothing if nobody has declared it.
  std::optional<VariableMetadata> metadata(const std::string& variable) const;
  const ByName<VariableMetadata>& all() const { return variables_; }

  /// The client's last connection is gone; it counts as dead unless it comes back, or is gone()
  /// cleanly. Returns the variables that it put to.
  std::set<std::string> lost(const ClientId& client);
  /// It has connected anew.
  void came_back(const ClientId& client);
  /// The client has ended, or died. Returns the variables that it put to.
  std::set<std::string> gone(const ClientId& client, bool cleanly);

 private:
  struct Definition {
    PutRequest domain;
    int writers = 0;
  };

  Status check(const PutRequest& request) const;

  std::int64_t cell_bytes_;
  Limits limits_;
  std::uint64_t number_ = 0;  ///< of the last creation or deletion
  std::map<std::string, Definition> definitions_;
  ByName<VariableMetadata> variables_;
  struct Producer {
    std::set<std::string> variables;
    bool lost = false;
  };
  std::map<ClientId, Producer> producers_;
};

}  // namespace tranship::staging
