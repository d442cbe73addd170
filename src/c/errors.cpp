#include "c/errors.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

namespace tranship::c_api {
namespace {

/// Members of a list, at least a pointer each, that fill an address space of 47 bits.
constexpr std::int64_t members_max = std::int64_t{1} << 44;

/// Longest wait that a caller can ask for.
constexpr double timeout_max_s = 1e6;

constexpr int code_of(ErrorCode code) { return static_cast<int>(code) + 1; }

// The codes after TRANSHIP_OK are those of ErrorCode, in the same order.
static_assert(code_of(ErrorCode::invalid_argument) == TRANSHIP_INVALID_ARGUMENT);
static_assert(code_of(ErrorCode::not_found) == TRANSHIP_NOT_FOUND);
static_assert(code_of(ErrorCode::out_of_range) == TRANSHIP_OUT_OF_RANGE);
static_assert(code_of(ErrorCode::no_route) == TRANSHIP_NO_ROUTE);
static_assert(code_of(ErrorCode::unsupported) == TRANSHIP_UNSUPPORTED);
static_assert(code_of(ErrorCode::out_of_memory) == TRANSHIP_OUT_OF_MEMORY);
static_assert(code_of(ErrorCode::io) == TRANSHIP_IO);
static_assert(code_of(ErrorCode::permission) == TRANSHIP_PERMISSION);
static_assert(code_of(ErrorCode::peer_lost) == TRANSHIP_PEER_LOST);
static_assert(code_of(ErrorCode::timeout) == TRANSHIP_TIMEOUT);
static_assert(code_of(ErrorCode::cancelled) == TRANSHIP_CANCELLED);
static_assert(code_of(ErrorCode::closed) == TRANSHIP_CLOSED);

/// The words of a thread's last failure.
struct LastError {
  std::string message;
  std::string hint;
};

LastError& last_error() {
  thread_local LastError last;
  return last;
}

}  // namespace

tranship_code fail(const Error& error) noexcept {
  LastError& last = last_error();
  try {
    last.message = error.message.empty() ? to_string(error.code) : error.message;
    last.hint = error.hint;
  } catch (const std::bad_alloc&) {
    last.message.clear();
    last.hint.clear();
  }
  return static_cast<tranship_code>(code_of(error.code));
}

Status check_given(std::initializer_list<std::pair<const char*, const void*>> arguments) {
  for (const auto& [name, value] : arguments) {
    if (value != nullptr) continue;
    return Error{ErrorCode::invalid_argument, std::string("the argument `") + name + "` is NULL",
                 "pass an address"};
  }
  return {};
}

Status check_list(std::pair<const char*, std::int64_t> count,
                  std::initializer_list<std::pair<const char*, const void*>> lists) {
  const auto& [name, value] = count;
  if (value >= 0 && value <= members_max) return value == 0 ? Status{} : check_given(lists);
  return Error{ErrorCode::invalid_argument,
               std::string(name) + "=" + std::to_string(value) +
                   (value < 0 ? " is negative" : " is more than memory holds"),
               "give 0 or more"};
}

Status check_index(std::int64_t index, std::int64_t size, const char* things) {
  if (index >= 0 && index < size) return {};
  return Error{ErrorCode::out_of_range,
               "the index is " + std::to_string(index) + ", and there are " + std::to_string(size) +
                   " " + things,
               "give an index from 0 to below that"};
}

Result<std::size_t> read_size(std::size_t size, std::size_t known, const char* options) {
  if (size >= sizeof(std::size_t) && size <= known) return size;
  return Error{ErrorCode::invalid_argument,
               std::string("the size of `") + options + "` is " + std::to_string(size) +
                   " bytes, and this library knows " + std::to_string(known),
               "set its member `size` to the sizeof of its type, and link with the library that "
               "belongs to the header"};
}

Result<std::chrono::milliseconds> duration(double seconds) {
  if (std::isnan(seconds) || seconds < 0) {
    return Error{ErrorCode::invalid_argument,
                 "the timeout is " + std::to_string(seconds) + " seconds",
                 "give at least 0 seconds"};
  }
  return std::chrono::milliseconds(
      static_cast<std::int64_t>(std::min(seconds, timeout_max_s) * 1e3));
}

}  // namespace tranship::c_api

using namespace tranship;

const char* tranship_error_name(tranship_code code) {
  const int number = static_cast<int>(code);
  if (number == TRANSHIP_OK) return "ok";
  const bool known = number > TRANSHIP_OK && number <= TRANSHIP_CLOSED;
  return known ? to_string(static_cast<ErrorCode>(number - 1)) : "unknown";
}

const char* tranship_last_error() { return c_api::last_error().message.c_str(); }

const char* tranship_last_hint() { return c_api::last_error().hint.c_str(); }
