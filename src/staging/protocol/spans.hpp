// What the staging service shows of itself in an engine's trace.
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

/// A call of a client: put, get or wait. Its version is noted when it is known.
Span call_span(const char* call, const std::string& variable, const Box& box, std::int64_t bytes);

/// What a call is made of: a request, a copy, a pause.
Span part_span(const std::string& name, std::int64_t bytes = 0);
Span request_span(std::span<const std::byte> request, int server);

/// What a server shows: what it answered, how long puts waited for memory, what was discarded. Not
/// thread-safe.
class ServerTrace {
 public:
  ServerTrace(Trace& trace, int server);

  /// A request was answered, which had come at `begin_ns`.
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
  /// Since when a put waits for memory: by client and object.
  std::map<std::pair<ClientConnection, std::string>, std::int64_t> waiting_;
};

}  // namespace tranship::staging
