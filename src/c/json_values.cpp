#include "c/json_values.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/text.hpp"

namespace tranship::c_api {
namespace {

using Json = nlohmann::json;

/// What Python writes where JSON has no number.
constexpr std::array<std::pair<std::string_view, double>, 3> no_numbers{
    {{"NaN", std::numeric_limits<double>::quiet_NaN()},
     {"Infinity", std::numeric_limits<double>::infinity()},
     {"-Infinity", -std::numeric_limits<double>::infinity()}}};

/// Returns the error of a value of another kind: what it is, and what it is not.
Error other_kind(const std::string& json, const std::string& wanted) {
  return {ErrorCode::invalid_argument, "is " + in_quotes(json) + ", and no " + wanted,
          "get it as what it is, or as its JSON text"};
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") + 1 - first);
}

/// Returns whether a JSON value is a number.
bool is_number(const std::string& json) {
  const std::string_view text = trimmed(json);
  const bool begins = !text.empty() && (text[0] == '-' || (text[0] >= '0' && text[0] <= '9'));
  return begins && Json::accept(text.begin(), text.end());
}

bool is_whole(std::string_view number) {
  return number.find_first_of(".eE") == std::string_view::npos;
}

}  // namespace

std::string json_of(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  const double size = std::abs(value);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  std::array<char, 64> text{};
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, format).ptr;
  std::string json(text.data(), end);
  if (plain && json.find('.') == std::string::npos) json += ".0";
  return json;
}

std::string json_of(std::int64_t value) { return std::to_string(value); }

Result<std::string> json_of(const std::string& text) {
  try {
    return Json(text).dump();
  } catch (const Json::exception&) {
    return Error{ErrorCode::invalid_argument, "the text " + in_quotes(text) + " is not UTF-8",
                 "give a text in UTF-8"};
  }
}

Status check_json(const std::string& text) {
  for (const auto& [name, value] : no_numbers) {
    if (text == name) return {};
  }
  try {
    [[maybe_unused]] const Json value = Json::parse(text);
    return {};
  } catch (const Json::exception& failure) {
    const std::string_view why = failure.what();
    return Error{ErrorCode::invalid_argument,
                 in_quotes(text) + " is no JSON value" +
                     std::string(why.find("out_of_range") == std::string_view::npos
                                     ? ""
                                     : ": a number is too large"),
                 "give a number, a text in quotation marks, true, false, null, or lists and "
                 "mappings of these"};
  }
}

Result<double> double_of(const std::string& json) {
  for (const auto& [name, value] : no_numbers) {
    if (json == name) return value;
  }
  if (!is_number(json)) return other_kind(json, "number");
  const std::string_view text = trimmed(json);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  if (!is_whole(text)) return value;
  std::array<char, 512> digits{};  // a double has up to 309 before the point
  std::snprintf(digits.data(), digits.size(), "%.0f", value);
  if (text == digits.data()) return value;
  return Error{ErrorCode::invalid_argument,
               "is " + in_quotes(text) + ", a whole number that no double has",
               "get it as a whole number, or as its JSON text"};
}

Result<std::int64_t> int64_of(const std::string& json) {
  if (!is_number(json)) return other_kind(json, "whole number");
  const std::string_view text = trimmed(json);
  if (!is_whole(text)) return other_kind(json, "whole number");
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure == std::errc{}) return value;
  return Error{ErrorCode::invalid_argument, "is " + in_quotes(text) + ", which 64 bits cannot hold",
               "get it as its JSON text"};
}

Result<std::string> text_of(const std::string& json) {
  const std::string_view text = trimmed(json);
  if (text.empty() || text[0] != '"') return other_kind(json, "text");
  const Json value = Json::parse(text.begin(), text.end(), nullptr, false);
  if (!value.is_string()) return other_kind(json, "text");
  auto found = value.get<std::string>();
  if (found.find('\0') == std::string::npos) return found;
  return Error{ErrorCode::unsupported, "has a NUL character, which would end it in C",
               "get its JSON text"};
}

}  // namespace tranship::c_api
