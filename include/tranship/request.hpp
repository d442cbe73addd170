// Asynchronous puts and gets.
#pragma once

#include <memory>

#include "error.hpp"
#include "staging.h"

namespace tranship {

/// An asynchronous put or get. The array's memory must stay valid until it has ended; the
/// destructor waits for the end, which the request's own timeout bounds. Any thread may call any
/// member.
class Request {
 public:
  /// Takes ownership of a handle of the C API.
  explicit Request(tranship_request* handle) noexcept : handle_(handle) {}

  /// Waits for the end, at most `timeout`.
  /// @throws what the put or get failed with; Timeout
  void wait(Seconds timeout) const {
    detail::check(tranship_request_wait(handle_.get(), timeout.count()));
  }
  /// Returns whether it has ended.
  bool done() const {
    int ended = 0;
    detail::check(tranship_request_test(handle_.get(), &ended));
    return ended != 0;
  }

 private:
  std::unique_ptr<tranship_request, detail::Free<tranship_request_free>> handle_;
};

}  // namespace tranship
