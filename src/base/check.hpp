// CHECK stops the program on a bug, in release builds too.
#pragma once

namespace tranship {

[[noreturn]] void check_failed(const char* condition, const char* message, const char* file,
                               int line);

}  // namespace tranship

#define CHECK(condition, message)                                        \
  do {                                                                   \
    if (!(condition)) [[unlikely]]                                       \
      ::tranship::check_failed(#condition, message, __FILE__, __LINE__); \
  } while (false)
