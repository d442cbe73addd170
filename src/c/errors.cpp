#include "c/errors.hpp"

#include <string>

namespace tranship::c_api {
namespace {

constexpr int code_of(ErrorCode code) { return static_cast<int>(code) + 1; }

// The codes are those of ErrorCode, in its order, behind TRANSHIP_OK.
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

std::string& last_message() {
  thread_local std::string message;
  return message;
}

}  // namespace

tranship_code fail(const Error& error) noexcept {
  try {
    last_message() = error.message.empty() ? to_string(error.code) : error.text();
  } catch (const std::bad_alloc&) {
    last_message().clear();
  }
  return static_cast<tranship_code>(code_of(error.code));
}

Status check_given(std::initializer_list<std::pair<const char*, const void*>> arguments) {
  for (const auto& [name, value] : arguments) {
    if (value != nullptr) continue;
    return Error{ErrorCode::invalid_argument, std::string("the argument `") + name + "` is NULL",
                 "give it"};
  }
  return {};
}

}  // namespace tranship::c_api

using namespace tranship;

const char* tranship_error_name(tranship_code code) {
  const int number = static_cast<int>(code);
  return number == TRANSHIP_OK ? "ok" : to_string(static_cast<ErrorCode>(number - 1));
}

const char* tranship_last_error() { return c_api::last_message().c_str(); }
