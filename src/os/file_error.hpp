// Errors of the operating system.
#pragma once

#include <string>

#include "base/error.hpp"

namespace tranship {

/// Returns an error of the operating system as an Error with a hint.
/// operation: Verb for the message, such as "open" or "write". error_number: Value of errno.
Error file_error(const char* operation, const std::string& path, int error_number);

/// Returns the description of `errno`.
std::string errno_text();

}  // namespace tranship
