// Requests of one client to the servers of a group: repeated, given back, interrupted.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "staging/protocol/servers.hpp"

namespace tranship::staging {

/// A client that receives no notice looks again after this time.
constexpr std::int64_t look_again_ns = 250'000'000;

/// While one exists, calls of its thread fail where they would wait for what other clients do, or
/// for copies. At most one exists for each thread.
class NoWaits {
 public:
  NoWaits();
  ~NoWaits();
  NoWaits(const NoWaits&) = delete;
  NoWaits& operator=(const NoWaits&) = delete;

  /// Returns whether a call of this thread would have waited.
  bool met() const { return met_; }
  /// Returns whether this thread has an object of this class, and a call would have waited under
  /// it: that call is tried again.
  static bool met_now();
  /// Notes that a call is about to wait. Returns whether it must not.
  static bool forbid();

  /// Allows waits again, for a request that would have to begin anew without one.
  class Lifted;

 private:
  bool met_ = false;
};

class NoWaits::Lifted {
 public:
  Lifted();
  ~Lifted();
  Lifted(const Lifted&) = delete;
  Lifted& operator=(const Lifted&) = delete;

  /// Returns whether waits were forbidden.
  bool any() const { return met_ != nullptr; }
  /// Notes that the call would have to wait for longer.
  void note() const { *met_ = true; }

 private:
  bool* met_;
};

/// Returns whether requests of a type are granted something, which Undo gives back.
template <typename Request>
constexpr bool is_undoable = requires(Request request) { request.request_id; };

/// Returns whether a server may still carry out a request that failed so.
inline bool is_in_doubt(const Error& error) {
  return error.code == ErrorCode::timeout || error.code == ErrorCode::cancelled;
}

/// Requests of one type to several servers, which answer at the same time. What a server grants in
/// a reply that is not taken, because it is late or nobody waits for it any more, is given back.
/// The trace of a thread nests: so the replies are taken in the reverse of the order in which the
/// requests were sent, and those of requests that were sent meanwhile before them. One thread at a
/// time may call members.
template <typename Request>
class SentRequests {
 public:
  explicit SentRequests(std::int64_t end_ns = 0) : end_ns_(end_ns) {}
  SentRequests(SentRequests&&) noexcept = default;
  SentRequests& operator=(SentRequests&& other) noexcept {
    drop();
    sent_ = std::move(other.sent_);
    end_ns_ = other.end_ns_;
    return *this;
  }
  ~SentRequests() { drop(); }

  /// Sends the request to one more server. An undoable one has a request id of its own.
  /// @error if it cannot be written
  Status send(Servers& servers, int server, const Request& request) {
    const auto message = written(request);
    if (!message) return message.error();
    One& one = sent_.emplace_back(One{servers, server, std::make_unique<ReplyBuffer>(end_ns_)});
    if constexpr (is_undoable<Request>) one.request_id = request.request_id;
    one.question = servers.send(server, *message, *one.buffer);
    return {};
  }

  /// Waits for each reply, and calls `take(server, Result<Request::Reply>&)` with it, the last
  /// server's first, until a call returns false. Stops waiting for the others then.
  template <typename Take>
  void take_replies(const Take& take) {
    for (bool more = true; more && !sent_.empty(); sent_.pop_back()) {
      One& one = sent_.back();
      auto result = reply_of(one);
      more = take(one.server, result);
    }
    drop();
  }

  /// Stops waiting for replies that were not taken.
  void drop() {
    for (; !sent_.empty(); sent_.pop_back()) {
      One& one = sent_.back();
      one.question.reset();
      give_back(one);
    }
  }

 private:
  struct One {
    Servers& servers;
    int server = 0;
    std::unique_ptr<ReplyBuffer> buffer;
    std::unique_ptr<Servers::Question> question{};  ///< ends before its buffer
    RequestId request_id = 0;
  };

  Result<typename Request::Reply> reply_of(One& one) {
    const auto answer = one.question->reply();
    if (!answer) {
      if (is_in_doubt(answer.error())) give_back(one);
      return answer.error();
    }
    typename Request::Reply reply;
    if (Status status = read_reply(*answer, reply); !status) return status.error();
    return reply;
  }

  /// Gives back what the request was granted, or may still be.
  static void give_back(One& one) {
    if constexpr (is_undoable<Request>) {
      one.servers.tell(one.server, message_of(protocol::Undo{one.request_id}));
    }
  }

  std::vector<One> sent_;
  std::int64_t end_ns_;
};

/// Sends requests and reads replies. Any thread may call any member. Times are of the servers'
/// clock.
class RequestSender {
 public:
  explicit RequestSender(Servers& servers) : servers_(servers) {}

  /// Sets the function that waiting threads call now and then; they give up when it returns true.
  void give_up_when(std::function<bool()> interrupted) { interrupted_ = std::move(interrupted); }

  int servers() const { return servers_.count(); }
  std::int64_t message_bytes() const { return servers_.message_bytes(); }
  std::int64_t now_ns() const { return servers_.now_ns(); }
  std::uint64_t notices() const { return servers_.notices(); }
  RequestId new_request_id() { return ++last_request_id_; }
  /// As Servers::tell().
  void send(int server, const fabric::MessageWriter& request) { servers_.tell(server, request); }

  /// As staging::ask().
  template <typename Request>
  Result<typename Request::Reply> ask(int server, const Request& request, ReplyBuffer& reply) {
    return staging::ask(servers_, server, request, reply);
  }
  /// Sends a request to one more server, without waiting for the reply; one that is granted
  /// something gets an id. @error as there
  template <typename Request>
  Status send(int server, Request request, SentRequests<Request>& sent) {
    if constexpr (is_undoable<Request>) request.request_id = new_request_id();
    return sent.send(servers_, server, request);
  }
  /// Sends a request that is granted something, as ask() does. The request gets an id, by which the
  /// grant is given back if the call stops waiting for the reply.
  template <typename Request>
  Result<typename Request::Reply> ask_undoable(int server, Request request, ReplyBuffer& reply);
  /// Sends a request as ask() does, again after each notice, until the server no longer lets it
  /// wait.
  /// @error as ask(); as pause()
  template <typename Request>
  Result<typename Request::Reply> ask_until_done(int server, const Request& request,
                                                 ReplyBuffer& reply, std::int64_t end_ns);

  /// Waits for more notices than `seen`, or for some time.
  /// @error timeout after `end_ns` or where NoWaits says so, with the reason `why`; cancelled if
  ///        interrupted
  Status pause(std::uint64_t seen, std::int64_t end_ns, const std::string& why);
  /// Checks whether a search may go on to another version, after `rounds` that had gaps or were
  /// discarded. However many versions a server names, the search ends with the time of its call.
  /// @error as pause()
  Status continue_search(int rounds, std::int64_t end_ns, const std::string& why) const;

  /// Orphans, and the server whose reply named them.
  using NamedOrphans = std::vector<std::pair<int, std::vector<Orphan>>>;
  /// Reports orphans to their primaries, all at once, and waits until they have dropped them. An
  /// error changes nothing: a primary that cannot be reached has lost them, or keeps them for
  /// longer.
  void report_orphans(const NamedOrphans& named);
  void report_orphans(int server, const std::vector<Orphan>& orphans) {
    report_orphans({{server, orphans}});
  }

 private:
  Servers& servers_;
  std::function<bool()> interrupted_;
  std::atomic<RequestId> last_request_id_{0};
};

template <typename Request>
Result<typename Request::Reply> RequestSender::ask_undoable(int server, Request request,
                                                            ReplyBuffer& reply) {
  request.request_id = new_request_id();
  auto answer = ask(server, request, reply);
  if (!answer && is_in_doubt(answer.error())) {
    send(server, message_of(protocol::Undo{request.request_id}));
  }
  return answer;
}

template <typename Request>
Result<typename Request::Reply> RequestSender::ask_until_done(int server, const Request& request,
                                                              ReplyBuffer& reply,
                                                              std::int64_t end_ns) {
  const auto message = written(request);
  if (!message) return message.error();
  while (true) {
    const std::uint64_t seen = notices();
    auto answer = ask_written<Request>(servers_, server, *message, reply);
    if (!answer) return answer;
    const auto* wait = std::get_if<protocol::Wait>(&*answer);
    if (wait == nullptr) return answer;
    if (Status status = pause(seen, end_ns, wait->why); !status) return status.error();
  }
}

}  // namespace tranship::staging
