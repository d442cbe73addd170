// Exceptions of the C++ face. Every failure of the C API becomes one of them.
#pragma once

#if !defined(__cplusplus) || __cplusplus < 202002L
#error "the C++ headers of tranship need C++20: compile with -std=c++20, or include tranship.h"
#endif

#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

#include "error.h"

namespace tranship {

/// Why a call failed. A caller acts differently on each.
enum class Code {
  invalid_argument = TRANSHIP_INVALID_ARGUMENT,  ///< the call cannot be carried out as written
  not_found = TRANSHIP_NOT_FOUND,                ///< no such file, variable, version or export
  out_of_range = TRANSHIP_OUT_OF_RANGE,          ///< an index or a range outside the array
  no_route = TRANSHIP_NO_ROUTE,                  ///< no chain of channels joins the two memories
  unsupported = TRANSHIP_UNSUPPORTED,            ///< this build or this machine cannot do it
  out_of_memory = TRANSHIP_OUT_OF_MEMORY,        ///< a memory or its budget is exhausted
  io = TRANSHIP_IO,                              ///< the system refused a file or a socket
  permission = TRANSHIP_PERMISSION,              ///< the operating system forbids it
  peer_lost = TRANSHIP_PEER_LOST,                ///< another process died or cannot be reached
  timeout = TRANSHIP_TIMEOUT,                    ///< the timeout passed before the wait ended
  cancelled = TRANSHIP_CANCELLED,                ///< the copy was cancelled
  closed = TRANSHIP_CLOSED,                      ///< the engine or the connection was closed
};

/// A failure: its code, its message and its hint. what() has both texts. The subclasses below stand
/// for the codes that programs catch most often; all others are plain errors.
class TRANSHIP_API Error : public std::runtime_error {
 public:
  Error(Code code, std::string message, std::string hint = {})
      : std::runtime_error(hint.empty() ? message : message + "; " + hint),
        code_(code),
        message_(std::move(message)),
        hint_(std::move(hint)) {}

  Code code() const noexcept { return code_; }
  /// Returns the code's name, such as "peer_lost".
  const char* name() const noexcept {
    return tranship_error_name(static_cast<tranship_code>(code_));
  }
  /// Returns what went wrong, with the value and the argument's name.
  const std::string& message() const noexcept { return message_; }
  /// Returns what to do about it; empty if there is nothing to say.
  const std::string& hint() const noexcept { return hint_; }

 private:
  Code code_;
  std::string message_;
  std::string hint_;
};

#define TRANSHIP_ERROR_CLASS(Name, code)                            \
  class TRANSHIP_API Name : public Error {                          \
   public:                                                          \
    explicit Name(std::string message, std::string hint = {})       \
        : Error(Code::code, std::move(message), std::move(hint)) {} \
  }

TRANSHIP_ERROR_CLASS(InvalidArgument, invalid_argument);
TRANSHIP_ERROR_CLASS(NotFound, not_found);
TRANSHIP_ERROR_CLASS(OutOfRange, out_of_range);
TRANSHIP_ERROR_CLASS(NoRoute, no_route);
TRANSHIP_ERROR_CLASS(PeerLost, peer_lost);
TRANSHIP_ERROR_CLASS(Timeout, timeout);
TRANSHIP_ERROR_CLASS(Cancelled, cancelled);
TRANSHIP_ERROR_CLASS(Closed, closed);
#undef TRANSHIP_ERROR_CLASS

/// A timeout: any duration of <chrono> converts to it. At most 1e6 s.
using Seconds = std::chrono::duration<double>;

namespace detail {

/// Throws this thread's last failure, if `code` says that the call failed.
/// @throws the class that stands for the code
inline void check(tranship_code code) {
  if (code == TRANSHIP_OK) return;
  std::string message = tranship_last_error();
  std::string hint = tranship_last_hint();
  switch (static_cast<Code>(code)) {
    case Code::invalid_argument: throw InvalidArgument(std::move(message), std::move(hint));
    case Code::not_found: throw NotFound(std::move(message), std::move(hint));
    case Code::out_of_range: throw OutOfRange(std::move(message), std::move(hint));
    case Code::no_route: throw NoRoute(std::move(message), std::move(hint));
    case Code::peer_lost: throw PeerLost(std::move(message), std::move(hint));
    case Code::timeout: throw Timeout(std::move(message), std::move(hint));
    case Code::cancelled: throw Cancelled(std::move(message), std::move(hint));
    case Code::closed: throw Closed(std::move(message), std::move(hint));
    default: throw Error(static_cast<Code>(code), std::move(message), std::move(hint));
  }
}

/// Frees a handle of the C API: the deleter of a std::unique_ptr.
template <auto free>
struct Free {
  template <typename Handle>
  void operator()(Handle* handle) const noexcept {
    free(handle);
  }
};

/// Returns a text for C: null for an empty one, which means the default.
/// @throws InvalidArgument for a text with a NUL character, at which C would cut it
inline const char* optional_text(const std::string& text) {
  if (text.find('\0') != std::string::npos) {
    throw InvalidArgument("a text has a NUL character", "give one without control characters");
  }
  return text.empty() ? nullptr : text.c_str();
}

}  // namespace detail
}  // namespace tranship
