// Trace spans of the staging service.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "base/trace.hpp"
#include "staging/protocol/messages.hpp"

namespace tranship::staging {

/// Returns the span of a client's put, get or wait. The caller notes the version when it is known.
Span call_span(const char* call, const std::string& variable, const Box& box, std::int64_t bytes);

/// Returns the span of a part of a call: a request, a copy, a pause.
Span part_span(const std::string& name, std::int64_t bytes = 0);
Span request_span(std::span<const std::byte> request, int server);

/// Spans of a server: requests that it answered, puts that waited for memory, versions that were
/// discarded. Not thread-safe.
class ServerTrace {
 public:
  ServerTrace(Trace& trace, int server);

  /// Adds the span of a request that arrived at `begin_ns` and was answered.
  void answered(ClientConnection from, std::span<const std::byte> request,
                const Result<std::size_t>& length, std::span<const std::byte> reply,
                std::int64_t begin_ns);
  void discarded(const std::string& variable, std::int64_t version);
  void gone(ClientConnection from);
  std::int64_t now_ns() const { return clock_.now_ns(); }

 private:
  void follow_wait(ClientConnection from, const Span& answer, const std::string& object,
                   bool waits);

  Trace& trace_;
  SteadyClock clock_;
  std::map<ClientConnection, std::string> names_;
  /// Since when puts wait for memory, by client and object.
  std::map<std::pair<ClientConnection, std::string>, std::int64_t> waiting_;
};

}  // namespace tranship::staging
