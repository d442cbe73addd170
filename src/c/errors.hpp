// Checks of the arguments of the C API's functions, and codes for their failures.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <new>
#include <utility>

#include "base/error.hpp"
#include "tranship/error.h"

namespace tranship::c_api {

/// Returns the error's code, and keeps its message and hint for tranship_last_error() and
/// tranship_last_hint() of this thread.
tranship_code fail(const Error& error) noexcept;

/// Checks that no argument is null. `arguments`: their names and values.
/// @error invalid_argument naming the first argument that is null
Status check_given(std::initializer_list<std::pair<const char*, const void*>> arguments);

/// Checks the number of members of a list that the caller gave, which may be null if it has none.
/// @error invalid_argument for a negative count, for more than memory holds, and for a null list
Status check_list(std::pair<const char*, std::int64_t> count,
                  std::initializer_list<std::pair<const char*, const void*>> lists);

/// Checks the index of one of `size` things. `things`: What they are called.
/// @error out_of_range
Status check_index(std::int64_t index, std::int64_t size, const char* things);

/// Returns the bytes of an options struct that its caller has set. `known`: the bytes that this
/// library reads; `options`: argument name.
/// @error invalid_argument if the caller's struct is larger, or has no size
Result<std::size_t> read_size(std::size_t size, std::size_t known, const char* options);

/// Returns a copy of an options struct, whose first member is its size, or the defaults for null.
/// Members that the caller's struct does not have are zero.
/// @error as read_size()
template <typename Options>
Result<Options> read_options(const Options* given) {
  Options options{};
  if (given == nullptr) return options;
  const auto size = read_size(given->size, sizeof(Options), "options");
  if (!size) return size.error();
  std::memcpy(&options, given, *size);
  return options;
}

/// Returns a timeout in seconds as a duration; at most 1e6 s.
/// @error invalid_argument for a negative number, and for what is no number
Result<std::chrono::milliseconds> duration(double seconds);

/// Returns what `work` returns, or what it throws as an error.
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

/// Returns the code of what `work` returns or throws.
template <typename Work>
tranship_code guarded(const Work& work) noexcept {
  const Status status = caught(work);
  return status ? TRANSHIP_OK : fail(status.error());
}

}  // namespace tranship::c_api
