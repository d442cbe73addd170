// The connection of a client's side of the protocol to the servers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/clock.hpp"
#include "staging/protocol/messages.hpp"

namespace tranship::staging {

/// Memory for a reply, allocated once and never cleared, and the end of the wait for the reply.
struct ReplyBuffer {
  ReplyBuffer() = default;
  explicit ReplyBuffer(std::int64_t end) : end_ns(end) {}

  std::unique_ptr<std::byte[]> bytes{};
  std::int64_t end_ns = 0;  ///< End of the call's time; 0: the call has no limit.
};

/// The servers of a group, over the fabric or in a simulated world. Any thread may call any member.
class Servers : public Clock {
 public:
  virtual int count() const = 0;
  /// Returns the largest reply of the servers, in bytes.
  virtual std::int64_t message_bytes() const = 0;
  /// Sends a request and waits for the reply until `reply.end_ns`, at least a second.
  /// @error the server's error; peer_lost; timeout and cancelled, after which the server may still
  ///        carry out the request
  virtual Result<std::span<const std::byte>> ask(int server, const fabric::MessageWriter& request,
                                                 ReplyBuffer& reply) = 0;
  /// A request that was sent. Destroying it stops waiting for the reply.
  class Question {
   public:
    Question() = default;
    virtual ~Question() = default;
    Question(const Question&) = delete;
    Question& operator=(const Question&) = delete;
    /// Waits for the reply, once. @error as ask()
    virtual Result<std::span<const std::byte>> reply() = 0;
  };
  /// Sends a request whose reply is taken later, so that several servers work at once. `reply`
  /// stays as long as the question. Here, it asks at once.
  virtual std::unique_ptr<Question> send(int server, const fabric::MessageWriter& request,
                                         ReplyBuffer& reply);
  /// Sends a request without waiting for the reply. It arrives after the requests before, answered
  /// or not. It is lost with the connection, or if there is none.
  virtual void tell(int server, const fabric::MessageWriter& request) = 0;
  /// Returns the number of notices that have come from all servers.
  virtual std::uint64_t notices() const = 0;
  /// Waits until more than `seen` notices have come, a server was lost, or the time is over.
  virtual void wait(std::uint64_t seen, std::int64_t until_ns) = 0;
};

/// Sends an encoded request of that type, and decodes the reply, whose views point into the buffer.
/// @error as Servers::ask(); unsupported if the reply is none of the request's
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

/// Encodes a request, sends it, and decodes the reply, as ask_written() does.
template <typename Request>
Result<typename Request::Reply> ask(Servers& servers, int server, const Request& request,
                                    ReplyBuffer& buffer) {
  const auto message = written(request);
  if (!message) return message.error();
  return ask_written<Request>(servers, server, *message, buffer);
}

}  // namespace tranship::staging
