// Attributes that C programs set and get.
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "c/staging_client.hpp"
#include "staging/model/steps.hpp"

struct tranship_attributes {
  const tranship::c_api::HandleKind kind = tranship::c_api::HandleKind::attributes;
  struct One {
    std::string key;
    std::string json;
    tranship::Result<std::string> text;  ///< The text that it is.
  };
  std::string whose;        ///< Words for what has them.
  std::vector<One> values;  ///< In the order of their names.
};

namespace tranship::c_api {

/// Returns the attributes of a variable, or those that belong to none, from a list in the order of
/// variables and names.
tranship_attributes attributes_of(std::string whose, const std::vector<staging::Attribute>& all,
                                  const std::string& variable);

/// Returns an attribute to be set. `variable`, `key`: As the caller gave them.
/// @error invalid_argument for names that are none; that of `json`
Result<staging::Attribute> attribute_of(const char* variable, const char* key,
                                        const Result<std::string>& json);

/// Returns the JSON text of a text, or of a JSON text, that the caller gave. @error as json_of()
/// and check_json(); invalid_argument for null
Result<std::string> given_text(const char* value);
Result<std::string> given_json(const char* json);

/// Returns names in quotation marks, for a hint.
std::string listed(const std::vector<std::string>& names);

}  // namespace tranship::c_api
