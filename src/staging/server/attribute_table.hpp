// Attributes of a run and of its variables, on the first server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "staging/model/limits.hpp"
#include "staging/model/steps.hpp"

namespace tranship::staging {

/// Attributes by variable (empty: of the run) and key. A later value replaces an earlier one.
/// Costs are logarithms. Not thread-safe.
class AttributeTable {
 public:
  explicit AttributeTable(const Limits& limits) : limits_(limits) {}

  /// Sets all of them, or none. An empty value deletes.
  /// @error invalid_argument if one with the reserved prefix has another value already
  /// @error out_of_memory if those of one variable, or of the run, would have more bytes than
  ///        limits allow, or if there would be too many variables
  Status set(const std::vector<Attribute>& attributes);
  /// Returns those of a variable, or of the run, whose keys are above `after`, in the order of
  /// their keys.
  std::vector<Attribute> of(const std::string& variable, const std::string& after = {}) const;
  /// Forgets those of a variable.
  void remove(const std::string& variable) { by_variable_.erase(variable); }

 private:
  using Values = std::map<std::string, std::string>;

  Limits limits_;
  std::map<std::string, Values> by_variable_;
};

}  // namespace tranship::staging
