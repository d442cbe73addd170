// How a client's side of the protocol reaches the servers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/clock.hpp"
#include "staging/protocol/messages.hpp"

namespace tranship::staging {

/// Room for a reply, made once and never cleared, and until when the reply is waited for.
struct ReplyBuffer {
  ReplyBuffer() = default;
  explicit ReplyBuffer(std::int64_t end) : end_ns(end) {}

  std::unique_ptr<std::byte[]> bytes{};
  std::int64_t end_ns = 0;  ///< The end of the call's time; 0: it has no limit of its own.
};

/// How a client reaches the servers: over the fabric, or in a simulated world. Any thread may call
/// any member.
class Servers : public Clock {
 public:
  virtual int count() const = 0;
  /// What the servers' replies may take.
  virtual std::int64_t message_bytes() const = 0;
  /// Waits for the reply until `reply.end_ns`, a second at least.
  /// @error what the server said; peer_lost; timeout and cancelled, after which the server may
  ///        still answer what nobody reads
  virtual Result<std::span<const std::byte>> ask(int server, const fabric::MessageWriter& request,
                                                 ReplyBuffer& reply) = 0;
  /// The same for what needs no reply, without waiting: it comes after what was asked before,
  /// answered or not. It is lost with the connection, and where there is none.
  virtual void tell(int server, const fabric::MessageWriter& request) = 0;
  /// How many notices have come, of all servers.
  virtual std::uint64_t notices() const = 0;
  /// Until more than `seen` notices have come, a server was lost, or time is up.
  virtual void wait(std::uint64_t seen, std::int64_t until_ns) = 0;
};

/// Asks a server what was written as a request of that type, and reads the reply. Views in it are
/// of the buffer.
/// @error as Servers::ask(); unsupported if the reply is none that the request has
template <typename Request>
Result<typename Request::Reply> ask_written(Servers& servers, int server,
                                            const fabric::MessageWriter& request,
                                            ReplyBuffer& buffer) {
  const auto answer = servers.ask(server, request, buffer);
  if (!answer) return answer.error();
  typename Request::Reply reply;
  if (Status status = read_reply(*answer, reply); !status) return status.error();
  return reply;
}

/// The same of a request.
template <typename Request>
Result<typename Request::Reply> ask(Servers& servers, int server, const Request& request,
                                    ReplyBuffer& buffer) {
  const auto message = written(request);
  if (!message) return message.error();
  return ask_written<Request>(servers, server, *message, buffer);
}

}  // namespace tranship::staging
