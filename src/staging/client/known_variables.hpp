// Metadata of variables that a client remembers, so that it asks for them once.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "staging/model/variable.hpp"

namespace tranship::staging {

struct KnownVariable {
  VariableMetadata metadata;
  bool declared = false;  ///< Whether this client puts to the variable.
};

/// Variables by name, up to 1024 of them: a client asks again for one that was dropped. Any thread
/// may call any member.
class KnownVariables {
 public:
  /// Remembers a variable and returns what is remembered of it. The order of its cells, which never
  /// change, is computed once for each incarnation; a declaration of the same incarnation is kept.
  KnownVariable remember(const std::string& variable, KnownVariable known);
  void forget(const std::string& variable);

  /// Returns nothing if the variable is not remembered.
  std::optional<KnownVariable> find(const std::string& variable) const;
  /// Returns the variable if this client has declared it, and the put fits it and its domain.
  /// Otherwise the metadata server must be asked: the domain may have grown, or the variable may be
  /// another one by now.
  std::optional<KnownVariable> find_declared(const PutRequest& request) const;

 private:
  mutable std::mutex mutex_;  ///< Guards what follows.
  std::map<std::string, KnownVariable> known_;
};

}  // namespace tranship::staging
