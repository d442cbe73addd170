// Turns the standard library's exceptions for refused memory and threads into errors.
#pragma once

#include <new>
#include <string>
#include <system_error>

#include "base/error.hpp"

namespace tranship {

/// Calls `work`, which returns a Result or a Status, and returns what it returns.
/// @error out_of_memory if it throws std::bad_alloc, or std::system_error as std::thread does
template <typename Work>
auto refusals_as_errors(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::out_of_memory, "the system refuses memory",
                 "end other programs, or raise the limit (ulimit -v)"};
  } catch (const std::system_error& refused) {
    return Error{ErrorCode::out_of_memory,
                 std::string("the system refuses a thread: ") + refused.what(),
                 "raise the limit of threads (ulimit -u)"};
  }
}

}  // namespace tranship
