// Attributes: values with names that belong to a run, a variable, or a step.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "attributes.h"
#include "error.hpp"

namespace tranship {

/// What an attribute is set to, or got as: a number, a text, or a truth value. Lists and mappings
/// are set and got as JSON texts.
template <typename T>
concept AttributeValue = std::is_arithmetic_v<T> || std::convertible_to<T, std::string>;

namespace detail {

/// Calls one of four functions of the C API: that of the value's type. `as_double` and its like are
/// called with the value as C takes it.
template <AttributeValue T>
tranship_code by_type(const T& value, const auto& as_double, const auto& as_int64,
                      const auto& as_text, const auto& as_json) {
  if constexpr (std::is_same_v<T, bool>) {
    return as_json(value ? "true" : "false");
  } else if constexpr (std::is_floating_point_v<T>) {
    return as_double(static_cast<double>(value));
  } else if constexpr (std::is_integral_v<T>) {
    if (std::in_range<std::int64_t>(value)) return as_int64(static_cast<std::int64_t>(value));
    return as_json(std::to_string(value).c_str());
  } else {
    const std::string text = value;
    (void)optional_text(text);  // it has no NUL character
    return as_text(text.c_str());
  }
}

}  // namespace detail

/// Attributes that were read. They do not change. Any thread may use them. Copies share them.
class Attributes {
 public:
  /// Shares a handle of the C API.
  explicit Attributes(std::shared_ptr<const tranship_attributes> handle) noexcept
      : handle_(std::move(handle)) {}

  /// Returns the names, in their order.
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (std::int64_t k = 0; k < tranship_attributes_size(handle()); ++k) {
      const char *name = nullptr, *text = nullptr;
      detail::check(tranship_attributes_entry(handle(), k, &name, &text));
      all.emplace_back(name);
    }
    return all;
  }

  /// Returns whether there is an attribute of that name.
  bool contains(const std::string& name) const {
    const char* text = nullptr;
    const tranship_code code = tranship_attributes_json(handle(), name.c_str(), &text);
    if (code == TRANSHIP_NOT_FOUND) return false;
    detail::check(code);
    return true;
  }

  /// Returns the value of an attribute. A whole number is got as a double, too, if a double can be
  /// that number.
  /// @throws NotFound; InvalidArgument, which says what it is, if it has another type
  template <typename T>
    requires std::same_as<T, double> || std::same_as<T, std::int64_t> || std::same_as<T, bool> ||
             std::same_as<T, std::string>
  T get(const std::string& name) const {
    if constexpr (std::same_as<T, std::string>) {
      const char* value = nullptr;
      detail::check(tranship_attributes_text(handle(), name.c_str(), &value));
      return value;
    } else if constexpr (std::same_as<T, bool>) {
      const std::string text = json(name);
      if (text == "true" || text == "false") return text == "true";
      throw InvalidArgument("the attribute \"" + name + "\" is " + text + ", and no truth value",
                            "get it as what it is, or as its JSON text");
    } else {
      T value{};
      if constexpr (std::same_as<T, double>) {
        detail::check(tranship_attributes_double(handle(), name.c_str(), &value));
      } else {
        detail::check(tranship_attributes_int64(handle(), name.c_str(), &value));
      }
      return value;
    }
  }

  /// Returns the JSON text of an attribute.
  /// @throws NotFound
  std::string json(const std::string& name) const {
    const char* text = nullptr;
    detail::check(tranship_attributes_json(handle(), name.c_str(), &text));
    return text;
  }

  const tranship_attributes* handle() const noexcept { return handle_.get(); }

 private:
  std::shared_ptr<const tranship_attributes> handle_;
};

}  // namespace tranship
