// Many requests of one type, sent in few messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "staging/client/request_sender.hpp"

namespace tranship::staging {

/// Requests of one type to any servers. Those to one server leave together, as many as fit into a
/// message; messages of all servers are under way at the same time. What is granted in a reply that
/// is not taken is given back, as by SentRequests. One thread at a time may call members.
template <typename Request>
class BatchedRequests {
 public:
  explicit BatchedRequests(RequestSender& requester, std::int64_t end_ns = 0)
      : requester_(&requester), sent_(end_ns) {}
  BatchedRequests(BatchedRequests&&) noexcept = default;
  BatchedRequests& operator=(BatchedRequests&&) = delete;
  ~BatchedRequests() { drop(); }

  /// Adds a request, which is sent with those before it once a message is full. An undoable one
  /// gets a request id.
  /// @error if it cannot be written or sent
  Status add(int server, Request request) {
    Batch& batch = open_[server];
    batch.server = server;
    if constexpr (is_undoable<Request>) request.request_id = requester_->new_request_id();
    auto message = written(request);
    if (!message) return message.error();
    const std::size_t bytes = sizeof(std::uint32_t) + message->bytes().size();
    const auto most = static_cast<std::size_t>(requester_->message_bytes());
    const bool full = batch.messages.size() == batch_most(requester_->message_bytes()) ||
                      batch.bytes + bytes > most;
    if (full && !batch.messages.empty()) {
      if (Status status = send(batch); !status) return status;
    }
    One one{count_++, 0};
    if constexpr (is_undoable<Request>) one.request_id = request.request_id;
    batch.bytes += bytes;
    batch.ones.push_back(one);
    batch.messages.push_back(std::move(*message));
    return {};
  }

  /// Sends what add() has kept.
  Status send() {
    for (auto& [server, batch] : open_) {
      if (batch.messages.empty()) continue;
      if (Status status = send(batch); !status) return status;
    }
    return {};
  }

  /// Sends what add() has kept, without waiting for replies.
  void tell() {
    for (auto& [server, batch] : open_) {
      if (!batch.messages.empty()) requester_->send(server, message_of(taken(batch).first));
    }
  }

  /// Sends what add() has kept, waits for each reply, and calls
  /// `take(number, Result<Request::Reply>&)` with it, until a call returns false. `number`: How
  /// many requests were added before. Views in a reply hold during the call. Stops waiting for the
  /// others then. Those of one message come in the order in which they were added.
  /// @error as add(); then no reply is taken
  template <typename Take>
  Status take_replies(const Take& take) {
    if (Status status = send(); !status) return status;
    sent_.take_replies([&](int server, const Result<protocol::BatchReplies>& answer) {
      const std::vector<One> ones = std::move(batches_.back().ones);
      batches_.pop_back();
      const bool well = answer && answer->replies.size() == ones.size();
      const Error failure = !answer ? answer.error() : not_a_server();
      const bool doubt = !answer && is_in_doubt(failure);
      bool more = true;
      for (std::size_t k = 0; k < ones.size(); ++k) {
        if (!more || doubt) give_back(server, ones[k]);
        if (!more) continue;
        auto reply = well ? reply_of(answer->replies[k]) : Result<Reply>(failure);
        more = take(ones[k].number, reply);
      }
      return more;
    });
    drop();
    return {};
  }

  /// Stops waiting for replies that were not taken.
  void drop() {
    sent_.drop();
    for (; !batches_.empty(); batches_.pop_back()) {
      for (const One& one : batches_.back().ones) give_back(batches_.back().server, one);
    }
    open_.clear();
  }

 private:
  using Reply = typename Request::Reply;
  struct One {
    std::size_t number = 0;
    RequestId request_id = 0;
  };
  struct Batch {
    int server = 0;
    std::size_t bytes = sizeof(RequestKind) + sizeof(std::uint32_t);
    std::vector<One> ones{};
    std::vector<fabric::MessageWriter> messages{};
  };

  /// Returns the batch's message, which refers to the second value, and empties the batch.
  std::pair<protocol::Batch, std::vector<fabric::MessageWriter>> taken(Batch& batch) {
    std::pair<protocol::Batch, std::vector<fabric::MessageWriter>> both;
    both.second = std::move(batch.messages);
    for (const auto& message : both.second) {
      both.first.requests.push_back(payload_of(message.bytes()));
    }
    batch = {batch.server};
    return both;
  }

  Status send(Batch& batch) {
    Batch kept{batch.server};
    kept.ones = batch.ones;
    const auto [request, messages] = taken(batch);
    if (Status status = requester_->send(kept.server, request, sent_); !status) return status;
    batches_.push_back(std::move(kept));
    return {};
  }

  static Result<Reply> reply_of(const protocol::BatchReplies::One& one) {
    if (one.error) return *one.error;
    Reply reply;
    if (Status status = read_reply(one.reply.bytes, reply); !status) return status.error();
    return reply;
  }

  void give_back(int server, const One& one) {
    if constexpr (is_undoable<Request>) {
      requester_->send(server, message_of(protocol::Undo{one.request_id}));
    }
  }

  RequestSender* requester_;
  SentRequests<protocol::Batch> sent_;
  std::vector<Batch> batches_;  ///< Those of sent_, in the same order.
  std::map<int, Batch> open_;   ///< By server: not sent yet.
  std::size_t count_ = 0;
};

}  // namespace tranship::staging
