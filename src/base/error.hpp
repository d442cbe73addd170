// Errors as values: a failure of the world is an Error, a bug stops the program (check.hpp).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace tranship {

/// Kinds of failure on which a caller may act differently; the message has the details.
enum class ErrorCode {
  invalid_argument,  ///< the call cannot be carried out as written
  not_found,         ///< a name, a file or an export that is not there
  out_of_range,      ///< a region or an index outside the array
  no_route,          ///< no chain of channels joins the two memories
  unsupported,       ///< this build or this machine cannot do it
  out_of_memory,     ///< a memory or its budget is exhausted
  io,                ///< the operating system refused an operation on a file or a socket
  permission,        ///< the operating system forbids it
  peer_lost,         ///< the other process died or cannot be reached
  timeout,           ///< a wait ended before the event did
  cancelled,         ///< the transfer was cancelled
  closed,            ///< the engine was closed
};

/// The code's name as users see it, such as "peer_lost".
const char* to_string(ErrorCode code);

/// A failure: its kind, what happened and what to do.
struct Error {
  ErrorCode code = ErrorCode::invalid_argument;
  std::string message;  ///< What went wrong, with the value and the argument's own name.
  std::string hint{};   ///< What to do about it; empty if there is nothing to say.

  /// Returns the message with its hint, for logs: "message; hint".
  std::string text() const { return hint.empty() ? message : message + "; " + hint; }
};

/// A value, or the error that prevented it.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::move(value)) {}
  Result(Error error) : content_(std::move(error)) {}

  explicit operator bool() const { return content_.index() == 0; }
  bool ok() const { return content_.index() == 0; }

  T& value() & { return std::get<0>(content_); }
  const T& value() const& { return std::get<0>(content_); }
  T value() && { return std::move(std::get<0>(content_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  Error& error() { return std::get<1>(content_); }
  const Error& error() const { return std::get<1>(content_); }

 private:
  std::variant<T, Error> content_;
};

/// Success, or an error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}

  explicit operator bool() const { return !error_; }
  bool ok() const { return !error_; }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace tranship
