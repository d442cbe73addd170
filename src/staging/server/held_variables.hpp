// The variables of which a server holds something: what they are, and their versions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "staging/model/by_name.hpp"
#include "staging/model/limits.hpp"
#include "staging/model/requests.hpp"
#include "staging/model/version_history.hpp"

namespace tranship::staging {

struct HeldVariable {
  HeldVariable(int versions_max, std::size_t intervals_max)
      : versions(versions_max, intervals_max) {}

  std::uint64_t incarnation = 0;  ///< As Incarnation::number.
  std::string type;
  std::int64_t element_bytes = 0;
  int rank = 0;
  std::optional<Box> bounds;  ///< The box around what was committed here.
  VersionHistory versions;
};

/// Makes variables as their first puts describe them, and says what a put or a get finds. Pointers
/// to variables stay valid until they are erased. Not thread-safe.
class HeldVariables {
 public:
  /// versions_max: Of a variable; 0: any number.
  HeldVariables(const Limits& limits, int versions_max)
      : limits_(limits), versions_max_(versions_max) {}

  /// Null if there is none.
  HeldVariable* find(const std::string& name);
  const HeldVariable* find(const std::string& name) const;
  HeldVariable& at(const std::string& name) { return variables_.at(name); }
  void erase(const std::string& name) { variables_.erase(name); }

  /// Makes the variable of a put.
  /// @error invalid_argument for its name; out_of_memory if there are as many as limits allow
  Result<HeldVariable*> make(const PutRequest& request);
  /// Checks that a variable takes the object of a put.
  /// @error invalid_argument if it does not fit; not_found if the version was discarded
  Status check_put(const PutRequest& request, const HeldVariable& variable) const;

  /// Returns the variable of a get, whose incarnation it has if the get names one; null: none.
  const HeldVariable* visible(const GetRequest& request) const;
  /// The same for a get of a box.
  /// @error invalid_argument if the box has another rank
  Result<const HeldVariable*> visible_box(const GetRequest& request) const;

  /// As those of ObjectStore.
  std::optional<VariableInfo> describe(const std::string& name) const;
  std::optional<VariableInfo> info(const std::string& name, std::optional<std::int64_t> after,
                                   std::size_t versions_max) const;
  std::vector<std::string> names_from(const std::string& first, std::size_t count_max) const;

 private:
  Limits limits_;
  int versions_max_;
  ByName<HeldVariable> variables_;
};

}  // namespace tranship::staging
