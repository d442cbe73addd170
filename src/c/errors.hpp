// What functions of the C API return, and the words that go with it.
#pragma once

#include <exception>
#include <initializer_list>
#include <new>
#include <utility>

#include "base/error.hpp"
#include "tranship/tranship.h"

namespace tranship::c_api {

/// The code to return; the message is kept for tranship_last_error() in this thread.
tranship_code fail(const Error& error) noexcept;

/// @error invalid_argument naming the first argument that is null
Status check_given(std::initializer_list<std::pair<const char*, const void*>> arguments);

/// What `work` returns; what it throws, as an error.
template <typename Work>
Status caught(const Work& work) noexcept {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::out_of_memory, {}};
  } catch (const std::exception& failure) {
    return Error{ErrorCode::io, failure.what()};
  }
}

/// The same as a code.
template <typename Work>
tranship_code guarded(const Work& work) noexcept {
  const Status status = caught(work);
  return status ? TRANSHIP_OK : fail(status.error());
}

}  // namespace tranship::c_api
