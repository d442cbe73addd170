// Values of attributes as JSON texts, written as Python's json module writes them: clients in all
// languages write equal values as equal texts.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.hpp"

namespace tranship::c_api {

/// Returns the shortest decimal number that is read as `value`; NaN, Infinity and -Infinity for
/// what JSON has no numbers for.
std::string json_of(double value);
std::string json_of(std::int64_t value);
/// @error invalid_argument unless the text is UTF-8
Result<std::string> json_of(const std::string& text);

/// Checks that a text is one JSON value.
/// @error invalid_argument, which says what is wrong with it
Status check_json(const std::string& text);

/// Returns the number that a JSON text is; of a whole number the same one, or an error.
/// @error invalid_argument if it is no number; a double cannot be that whole number; or it is not
///        whole, or has more than 64 bits. The message goes on from the name of the value.
Result<double> double_of(const std::string& json);
Result<std::int64_t> int64_of(const std::string& json);
/// @error invalid_argument if it is no text, and unsupported if the text has a NUL character
Result<std::string> text_of(const std::string& json);

}  // namespace tranship::c_api
