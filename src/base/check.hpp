// CHECK stops the program when a condition that only a bug can break does not hold. It is active
// in release builds, too.
#pragma once

namespace tranship {

/// Prints the condition, the message and the place, and aborts the program.
[[noreturn]] void check_failed(const char* condition, const char* message, const char* file,
                               int line);

}  // namespace tranship

#define CHECK(condition, message)                                        \
  do {                                                                   \
    if (!(condition)) [[unlikely]]                                       \
      ::tranship::check_failed(#condition, message, __FILE__, __LINE__); \
  } while (false)
