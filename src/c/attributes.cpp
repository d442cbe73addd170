// Attributes of runs and variables, as C sees them.
#include "c/attributes.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/text.hpp"
#include "c/json_values.hpp"
#include "staging/model/limits.hpp"
#include "tranship/attributes.h"

namespace tranship::c_api {

tranship_attributes attributes_of(std::string whose, const std::vector<staging::Attribute>& all,
                                  const std::string& variable) {
  tranship_attributes found;
  found.whose = std::move(whose);
  for (const staging::Attribute& one : all) {
    if (one.variable == variable) found.values.push_back({one.key, one.value, text_of(one.value)});
  }
  return found;
}

Result<staging::Attribute> attribute_of(const char* variable, const char* key,
                                        const Result<std::string>& json) {
  if (Status given = check_given({{"key", key}}); !given) return given.error();
  if (!json) return json.error();
  staging::Attribute made{variable == nullptr ? "" : variable, key, *json};
  if (Status status = staging::check_key(made.key); !status) return status.error();
  const bool named =
      std::ssize(made.variable) <= staging::name_bytes_most && is_plain_text(made.variable);
  if (named) return made;
  return Error{ErrorCode::invalid_argument,
               "a variable's name has 1 to " + std::to_string(staging::name_bytes_most) +
                   " bytes without control characters, unlike " + in_quotes(made.variable, 64)};
}

Result<std::string> given_text(const char* value) {
  if (Status given = check_given({{"value", value}}); !given) return given.error();
  return json_of(std::string(value));
}

Result<std::string> given_json(const char* json) {
  if (Status given = check_given({{"json", json}}); !given) return given.error();
  const Status status = check_json(json);
  return status ? Result<std::string>(json) : Result<std::string>(status.error());
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t most = 20;
  std::string text;
  for (std::size_t k = 0; k < std::min(names.size(), most); ++k) {
    text += (k == 0 ? "" : ", ") + in_quotes(names[k]);
  }
  if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
  return text.empty() ? "none" : text;
}

namespace {

using One = tranship_attributes::One;

std::string owner(const std::string& variable) {
  return variable.empty() ? "the run" : in_quotes(variable);
}

Error missing(const tranship_attributes& attributes, const std::string& key) {
  std::vector<std::string> names;
  for (const One& one : attributes.values) names.push_back(one.key);
  return {ErrorCode::not_found, attributes.whose + " has no attribute " + in_quotes(key),
          "it has " + listed(names)};
}

/// Writes what `read` returns of an attribute, whose name its error is put behind.
template <typename Value, typename Read>
tranship_code get_value(const tranship_attributes* attributes, const char* key, Value* value,
                        const char* argument, const Read& read) {
  return guarded([&]() -> Status {
    if (Status given = check_given({{"key", key}, {argument, value}}); !given) return given;
    Status given = check_handle("attributes", attributes, HandleKind::attributes);
    if (!given) return given;
    const auto found = std::find_if(attributes->values.begin(), attributes->values.end(),
                                    [&](const One& one) { return one.key == key; });
    if (found == attributes->values.end()) return missing(*attributes, key);
    const auto result = read(*found);
    if (!result) {
      const Error& error = result.error();
      return Error{
          error.code,
          "the attribute " + in_quotes(key) + " of " + attributes->whose + " " + error.message,
          error.hint};
    }
    *value = *result;
    return {};
  });
}

/// Sets what `json` returns.
template <typename Make>
tranship_code set(tranship_staging* staging, const char* variable, const char* key,
                  const Make& json) {
  return with_client(staging, {}, [&](staging::Client& client) -> Status {
    auto made = attribute_of(variable, key, json());
    return made ? client.set_attributes({std::move(*made)}) : Status(made.error());
  });
}

}  // namespace
}  // namespace tranship::c_api

using namespace tranship;
using namespace tranship::c_api;

tranship_code tranship_set_double(tranship_staging* staging, const char* variable, const char* key,
                                  double value) {
  return set(staging, variable, key, [&] { return json_of(value); });
}

tranship_code tranship_set_int64(tranship_staging* staging, const char* variable, const char* key,
                                 int64_t value) {
  return set(staging, variable, key, [&] { return json_of(value); });
}

tranship_code tranship_set_text(tranship_staging* staging, const char* variable, const char* key,
                                const char* value) {
  return set(staging, variable, key, [&] { return given_text(value); });
}

tranship_code tranship_set_json(tranship_staging* staging, const char* variable, const char* key,
                                const char* json) {
  return set(staging, variable, key, [&] { return given_json(json); });
}

tranship_code tranship_unset(tranship_staging* staging, const char* variable, const char* key) {
  return with_client(staging, {}, [&](staging::Client& client) -> Status {
    const auto made = attribute_of(variable, key, std::string());
    if (!made) return made.error();
    const auto all = client.attributes_of(made->variable);
    if (!all) return all.error();
    const bool known = std::any_of(all->begin(), all->end(),
                                   [&](const auto& one) { return one.key == made->key; });
    if (!known) {
      return missing(attributes_of(owner(made->variable), *all, made->variable), made->key);
    }
    return client.set_attributes({*made});
  });
}

tranship_code tranship_attributes_of(tranship_staging* staging, const char* variable,
                                     tranship_attributes** attributes) {
  return with_client(staging, {{"attributes", attributes}}, [&](staging::Client& client) -> Status {
    *attributes = nullptr;
    const std::string name = variable == nullptr ? "" : variable;
    const auto all = client.attributes_of(name);
    if (!all) return all.error();
    auto made = std::make_unique<tranship_attributes>(attributes_of(owner(name), *all, name));
    *attributes = made.release();
    return {};
  });
}

int64_t tranship_attributes_size(const tranship_attributes* attributes) {
  return is_handle(attributes, HandleKind::attributes) ? std::ssize(attributes->values) : 0;
}

tranship_code tranship_attributes_entry(const tranship_attributes* attributes, int64_t index,
                                        const char** key, const char** json) {
  return guarded([&]() -> Status {
    if (Status given = check_given({{"key", key}, {"json", json}}); !given) return given;
    Status given = check_handle("attributes", attributes, HandleKind::attributes);
    if (!given) return given;
    if (Status there = check_index(index, std::ssize(attributes->values), "attributes"); !there) {
      return there;
    }
    const One& one = attributes->values[static_cast<std::size_t>(index)];
    *key = one.key.c_str();
    *json = one.json.c_str();
    return {};
  });
}

tranship_code tranship_attributes_double(const tranship_attributes* attributes, const char* key,
                                         double* value) {
  return get_value(attributes, key, value, "value",
                   [](const One& one) { return double_of(one.json); });
}

tranship_code tranship_attributes_int64(const tranship_attributes* attributes, const char* key,
                                        int64_t* value) {
  return get_value(attributes, key, value, "value",
                   [](const One& one) { return int64_of(one.json); });
}

tranship_code tranship_attributes_text(const tranship_attributes* attributes, const char* key,
                                       const char** value) {
  return get_value(attributes, key, value, "value", [](const One& one) -> Result<const char*> {
    return one.text ? Result<const char*>(one.text->c_str()) : one.text.error();
  });
}

tranship_code tranship_attributes_json(const tranship_attributes* attributes, const char* key,
                                       const char** json) {
  return get_value(attributes, key, json, "json",
                   [](const One& one) { return Result<const char*>(one.json.c_str()); });
}

void tranship_attributes_free(tranship_attributes* attributes) {
  if (is_handle(attributes, HandleKind::attributes)) delete attributes;
}
