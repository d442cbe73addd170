// Servers of tests that are asked, and whose replies are read.
#pragma once

#include <utility>

#include "staging/server/service.hpp"
#include "support/test.hpp"

namespace tranship::staging {

/// A base of `Server`, which has a `service`, and room for a `reply`.
template <typename Server>
class Asked {
 public:
  /// Returns the reply, or the server's error.
  template <typename Request>
  Result<typename Request::Reply> ask(ClientConnection from, const Request& request) {
    auto& server = static_cast<Server&>(*this);
    const auto length = server.service.answer(from, message_of(request).bytes(), server.reply);
    if (!length) return length.error();
    typename Request::Reply said;
    REQUIRE(read_reply({server.reply.data(), *length}, said).ok());
    return said;
  }
  /// Returns the reply of a server that has no objection.
  template <typename Request>
  typename Request::Reply well(ClientConnection from, const Request& request) {
    auto said = ask(from, request);
    REQUIRE(said.ok());
    return std::move(*said);
  }
};

}  // namespace tranship::staging
