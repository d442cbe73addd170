// Whole messages of the staging service: a kind, and the fields that protocol.hpp lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "staging/protocol/protocol.hpp"

namespace tranship::staging {

const char* to_string(RequestKind kind);

/// Returns whether an object of `bytes` bytes at a range that a server sent lies in its segment.
bool lies_inside(const Range& range, std::int64_t bytes, std::int64_t segment_bytes);

/// Returns the encoded size of a value, in bytes.
template <typename T>
std::size_t encoded_bytes(const T& value) {
  CountingSink sink;
  Encoder<CountingSink> encoder(sink);
  encoder(value);
  return sink.bytes();
}

template <typename Sink, typename Message>
Status encode(Sink& sink, const Message& message) {
  Encoder<Sink> encoder(sink);
  encoder(Message::kind)(message);
  return encoder.status();
}

/// Encodes a request.
/// @error as storing its payload
template <typename Request>
Result<fabric::MessageWriter> written(const Request& request) {
  fabric::MessageWriter out;
  out.reserve(sizeof(RequestKind) + encoded_bytes(request));
  Status status = encode(out, request);
  return status ? Result<fabric::MessageWriter>(std::move(out))
                : Result<fabric::MessageWriter>(status.error());
}

/// Encodes a request without a payload, which cannot fail.
template <typename Request>
fabric::MessageWriter message_of(const Request& request) {
  return *written(request);
}

/// Encodes a reply into `room`; returns its length.
/// @error out_of_range if it does not fit; as storing its payload
template <typename Message>
Result<std::size_t> write_reply(std::span<std::byte> room, const Message& message) {
  SpanSink sink(room);
  if (Status status = encode(sink, message); !status) return status.error();
  if (sink.fits()) return sink.bytes();
  return Error{ErrorCode::out_of_range, "the answer does not fit a message: raise slot_bytes"};
}

/// Returns the kind of a request; an unknown kind if the request is too short.
RequestKind kind_of(std::span<const std::byte> request);
/// Returns whether a reply says that its request must wait.
bool says_waiting(std::span<const std::byte> reply);

/// Decodes the fields of a message.
/// @error the reason of the refusal, which the sender receives
template <typename Message>
Status read_body(std::span<const std::byte> body, Message& message) {
  Decoder decoder(body);
  decoder(message);
  decoder.check(decoder.at_end());
  return decoder.ok() ? Status{} : Status(decoder.refusal());
}

/// Reads a request of any kind, and calls `answer` with it.
/// @error as read_body(); as `answer`
template <typename Return, typename Answer, typename... Requests>
Return read_request(std::span<const std::byte> message, const Answer& answer,
                    std::type_identity<std::tuple<Requests...>>) {
  const RequestKind kind = kind_of(message);
  std::optional<Return> result;
  const auto try_one = [&]<typename Request>(std::type_identity<Request>) {
    if (kind != Request::kind) return false;
    Request request;
    const Status status = read_body(message.subspan(sizeof kind), request);
    result.emplace(status ? Return(answer(request)) : Return(status.error()));
    return true;
  };
  (void)(try_one(std::type_identity<Requests>{}) || ...);
  if (result) return std::move(*result);
  return Error{ErrorCode::invalid_argument, "a message that cannot be read"};
}

template <typename Return, typename Answer>
Return read_request(std::span<const std::byte> message, const Answer& answer) {
  return read_request<Return>(message, answer, std::type_identity<protocol::Requests>{});
}

/// Returns the error of a reply that cannot be read.
Error not_a_server();

/// Decodes a reply into that message of the variant which has its kind.
template <typename... Messages>
Status read_reply(std::span<const std::byte> message, std::variant<Messages...>& reply) {
  Decoder begin(message);
  ReplyKind kind{};
  begin(kind);
  if (!begin.ok()) return not_a_server();
  bool well = false;
  const auto try_one = [&]<typename Message>(std::type_identity<Message>) {
    if (kind != Message::kind) return false;
    well = read_body(message.subspan(sizeof kind), reply.template emplace<Message>()).ok();
    return true;
  };
  (void)(try_one(std::type_identity<Messages>{}) || ...);
  return well ? Status{} : Status(not_a_server());
}

template <typename Message>
Status read_reply(std::span<const std::byte> message, Message& reply) {
  std::variant<Message> one;
  Status status = read_reply(message, one);
  if (status) reply = std::move(std::get<0>(one));
  return status;
}

}  // namespace tranship::staging
