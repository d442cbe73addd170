#include "staging/server/attribute_table.hpp"

#include "base/text.hpp"

namespace tranship::staging {

Status AttributeTable::set(const std::vector<Attribute>& attributes) {
  std::map<std::string, Values> changed;
  for (const Attribute& attribute : attributes) {
    const auto known = by_variable_.find(attribute.variable);
    auto [found, is_new] = changed.try_emplace(attribute.variable);
    if (is_new && known != by_variable_.end()) found->second = known->second;
    const auto before = found->second.find(attribute.key);
    if (attribute.value.empty()) {
      found->second.erase(attribute.key);
    } else if (attribute.key.starts_with(reserved_prefix) && before != found->second.end() &&
               before->second != attribute.value) {
      return has_another_value(attribute, before->second, "");
    } else {
      found->second[attribute.key] = attribute.value;
    }
  }
  std::int64_t count = std::ssize(by_variable_);
  for (const auto& [variable, values] : changed) {
    std::int64_t bytes = 0;
    for (const auto& [key, value] : values) bytes += std::ssize(key) + std::ssize(value);
    if (bytes > limits_.attribute_bytes) {
      const std::string whose = variable.empty() ? "the run" : in_quotes(variable);
      return limit_reached(
          "the bytes of the attributes of " + whose + " are " + std::to_string(bytes) + ", above",
          limits_.attribute_bytes, "staging_attribute_bytes");
    }
    const bool is_new = !values.empty() && !by_variable_.contains(variable);
    count += is_new ? 1 : 0;
    if (is_new && count > limits_.variables + 1) {  // the run is none of them
      return limit_reached("the variables that have attributes are", limits_.variables,
                           "staging_variables");
    }
  }
  for (auto& [variable, values] : changed) {
    if (values.empty()) {
      by_variable_.erase(variable);
    } else {
      by_variable_[variable] = std::move(values);
    }
  }
  return {};
}

std::vector<Attribute> AttributeTable::of(const std::string& variable,
                                          const std::string& after) const {
  std::vector<Attribute> attributes;
  const auto found = by_variable_.find(variable);
  if (found == by_variable_.end()) return attributes;
  for (auto one = found->second.upper_bound(after); one != found->second.end(); ++one) {
    attributes.push_back({variable, one->first, one->second});
  }
  return attributes;
}

}  // namespace tranship::staging
