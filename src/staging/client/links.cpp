#include "staging/client/links.hpp"

#include <algorithm>
#include <condition_variable>
#include <new>
#include <random>

#include "base/unless_interrupted.hpp"
#include "staging/protocol/spans.hpp"

namespace tranship::staging {
namespace {

/// Calls without a timeout wait so long for each reply: the default of puts and gets.
constexpr std::chrono::milliseconds answer_wait_usual{30'000};
/// A call whose time is over still waits so long for its last reply.
constexpr std::chrono::milliseconds answer_wait_least{1'000};
/// A server of a group that could not be reached is not tried again for so long.
constexpr std::int64_t failure_lasts_ns = 10'000'000'000;
/// A thread that connects while the links close gives up within this time.
constexpr std::chrono::seconds close_wait_max{2};

/// Makes an identity whose halves are not zero.
ClientId new_identity() {
  std::random_device random;
  const auto half = [&] { return (std::uint64_t{random()} << 32 | random()) | 1; };
  return {half(), half()};
}

}  // namespace

/// Wakes the threads that wait for servers.
class Links::Listener : public PeerListener {
 public:
  void on_notice(std::span<const std::byte>) override { wake(); }
  void on_lost(const Error&) override { wake(); }
  std::uint64_t notices() {
    std::lock_guard lock(mutex_);
    return notices_;
  }
  /// Returns whether a notice has come.
  bool wait(std::uint64_t seen, std::int64_t until_ns) {
    using Time = std::chrono::steady_clock::time_point;
    std::unique_lock lock(mutex_);
    return condition_.wait_until(lock, Time(std::chrono::nanoseconds(until_ns)),
                                 [&] { return notices_ != seen; });
  }

  void wake() {
    std::lock_guard lock(mutex_);
    ++notices_;
    condition_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  std::uint64_t notices_ = 0;
};

Links::Links(Engine& engine, std::string name, std::function<bool()> interrupted)
    : engine_(engine),
      name_(std::move(name)),
      identity_(new_identity()),
      interrupted_(std::move(interrupted)),
      listener_(std::make_shared<Listener>()) {}

Result<std::unique_ptr<Links>> Links::open(Engine& engine, const std::string& contact,
                                           const std::string& name, const Patience& patience) {
  auto processes = engine.processes();
  if (!processes) return processes.error();
  std::unique_ptr<Links> links(new Links(engine, name, patience.interrupted));
  links->processes_ = *processes;
  links->links_.push_back({contact});
  auto first = links->connect(contact, 0, patience.timeout);
  if (!first) return first.error();
  links->links_[0].peer = first->peer;
  return links;
}

Links::~Links() {
  (void)close();
  // In a fork the last reference would wait for threads that live in the parent.
  if (fork_generation() == fork_generation_) return;
  try {
    (void)new std::shared_ptr<Processes>(std::move(processes_));
  } catch (const std::bad_alloc&) {
    return;  // a child without memory has nothing better left
  }
}

void Links::wake() { listener_->wake(); }

Status Links::close() {
  const bool forked = fork_generation() != fork_generation_;
  if (processes_ == nullptr || forked || engine_.closed()) return {};
  std::unique_lock connecting(connecting_, std::try_to_lock);
  const auto end = std::chrono::steady_clock::now() + close_wait_max;
  while (!connecting && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    (void)connecting.try_lock();
  }
  std::lock_guard lock(mutex_);
  Status status;
  for (Link& link : links_) {
    if (!link.peer) continue;
    processes_->listen(*link.peer, nullptr);
    if (!processes_->connected(*link.peer)) continue;
    if (Status one = processes_->disconnect(*link.peer); !one && status) status = one;
  }
  return status;
}

Result<Links::Link> Links::connect(const std::string& contact, int rank,
                                   std::chrono::milliseconds timeout) {
  const std::int64_t end_ns = now_ns() + std::chrono::nanoseconds(timeout).count();
  const auto peer = connect_when_there(processes_, contact, {timeout, interrupted_});
  if (!peer) return peer.error();
  processes_->listen(*peer, listener_);
  if (Status status = greet(*peer, rank, end_ns); !status) {
    processes_->listen(*peer, nullptr);
    (void)processes_->disconnect(*peer);
    return status.error();
  }
  return Link{contact, *peer};
}

Status Links::greet(fabric::PeerId peer, int rank, std::int64_t end_ns) {
  const fabric::MessageWriter hello =
      message_of(protocol::Hello{staging_version, name_, identity_});
  ReplyBuffer reply(end_ns);
  while (true) {
    const std::uint64_t seen = notices();
    const auto answer = ask(peer, hello, reply);
    if (!answer) {
      const bool foreign = answer.error().code == ErrorCode::unsupported;
      return foreign ? not_a_server() : answer.error();
    }
    protocol::Hello::Reply said;
    if (Status status = read_reply(*answer, said); !status) return status;
    if (const auto* welcome = std::get_if<protocol::Welcome>(&said)) return take_in(*welcome, rank);
    const std::string& why = std::get<protocol::Wait>(said).why;
    if (now_ns() >= end_ns) return Error{ErrorCode::timeout, why, "wait longer"};
    if (interrupted_ && interrupted_()) return interruption();
    wait(seen, std::min(end_ns, now_ns() + look_again_ns));
  }
}

/// Takes over the limits of a server; the first server's welcome also names the others.
Status Links::take_in(const protocol::Welcome& welcome, int rank) {
  if (welcome.server != rank) {
    return Error{ErrorCode::invalid_argument,
                 "this is server " + std::to_string(welcome.server) + " of " +
                     std::to_string(welcome.servers),
                 "connect to the first one, whose contact file names it"};
  }
  {
    std::lock_guard lock(mutex_);
    links_[static_cast<std::size_t>(rank)].segments_ahead = welcome.segments_ahead;
  }
  if (rank > 0) {
    if (welcome.message_bytes == message_bytes_ && welcome.data_bytes == data_bytes_) return {};
    return Error{ErrorCode::invalid_argument,
                 "the servers have different settings: start all with the same slot_bytes, and "
                 "all with objects on GPUs or none"};
  }
  message_bytes_ = welcome.message_bytes;
  data_bytes_ = welcome.data_bytes;
  contact_ = welcome.contacts[0];
  for (std::size_t k = 1; k < welcome.contacts.size(); ++k) {
    links_.push_back({welcome.contacts[k]});
  }
  return {};
}

int Links::segments_ahead(int server) const {
  std::lock_guard lock(mutex_);
  return links_[static_cast<std::size_t>(server)].segments_ahead;
}

/// A thread that connects does not block requests to servers that are connected.
Result<fabric::PeerId> Links::peer(int server, std::int64_t end_ns) {
  Link& link = links_[static_cast<std::size_t>(server)];
  const auto known = [&]() -> std::optional<Result<fabric::PeerId>> {
    std::lock_guard lock(mutex_);
    if (link.peer) return *link.peer;
    if (link.failure && now_ns() - link.failed_ns < failure_lasts_ns) return *link.failure;
    return {};
  };
  if (auto answer = known()) return *answer;
  std::lock_guard connecting(connecting_);
  if (auto answer = known()) return *answer;
  auto made = connect(link.contact, server, wait_of(end_ns));
  std::lock_guard lock(mutex_);
  if (made) {
    link.peer = made->peer;
    return *link.peer;
  }
  Error error = made.error();
  error.message = "staging server " + std::to_string(server) + " of " +
                  std::to_string(links_.size()) + ": " + made.error().message;
  // A server that is stopped may go on at any time.
  if (error.code != ErrorCode::cancelled && error.code != ErrorCode::timeout) {
    link.failure = error;
    link.failed_ns = now_ns();
  }
  return error;
}

Result<std::span<const std::byte>> Links::ask(fabric::PeerId peer,
                                              const fabric::MessageWriter& request,
                                              ReplyBuffer& reply) const {
  const auto room = static_cast<std::size_t>(message_bytes_);
  if (!reply.bytes) reply.bytes = std::make_unique_for_overwrite<std::byte[]>(room);
  const auto length = processes_->ask(peer, request.bytes(), {reply.bytes.get(), room},
                                      wait_of(reply.end_ns), interrupted_);
  if (!length) return length.error();
  return std::span<const std::byte>(reply.bytes.get(), *length);
}

std::chrono::milliseconds Links::wait_of(std::int64_t end_ns) const {
  if (end_ns == 0) return answer_wait_usual;
  const std::chrono::nanoseconds left(end_ns - now_ns());
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(left), answer_wait_least);
}

Result<std::span<const std::byte>> Links::ask(int server, const fabric::MessageWriter& request,
                                              ReplyBuffer& reply) {
  const auto known = peer(server, reply.end_ns);
  if (!known) return known.error();
  const Timed part(engine_.trace(), clock_, [&] { return request_span(request.bytes(), server); });
  return ask(*known, request, reply);
}

/// A request whose reply was not awaited when it was sent.
class Links::Sent final : public Servers::Question {
 public:
  Sent(Links& links, int server, const fabric::MessageWriter& request, ReplyBuffer& reply)
      : links_(links), reply_(reply) {
    const auto peer = links.peer(server, reply.end_ns);
    if (!peer) {
      failed_ = peer.error();
      return;
    }
    part_.emplace(links.engine_.trace(), links.clock_,
                  [&] { return request_span(request.bytes(), server); });
    const auto room = static_cast<std::size_t>(links.message_bytes_);
    if (!reply.bytes) reply.bytes = std::make_unique_for_overwrite<std::byte[]>(room);
    auto open = links.processes_->begin_ask(*peer, request.bytes(), {reply.bytes.get(), room});
    if (open) {
      open_ = std::move(*open);
    } else {
      failed_ = open.error();
    }
  }

  Result<std::span<const std::byte>> reply() override {
    if (failed_) return *failed_;
    const auto length =
        links_.processes_->end_ask(*open_, links_.wait_of(reply_.end_ns), links_.interrupted_);
    part_.reset();
    if (!length) return length.error();
    return std::span<const std::byte>(reply_.bytes.get(), *length);
  }

 private:
  Links& links_;
  ReplyBuffer& reply_;
  std::optional<Timed> part_;
  std::optional<Error> failed_;
  std::unique_ptr<fabric::OpenQuestion> open_;
};

std::unique_ptr<Servers::Question> Links::send(int server, const fabric::MessageWriter& request,
                                               ReplyBuffer& reply) {
  return std::make_unique<Sent>(*this, server, request, reply);
}

void Links::tell(int server, const fabric::MessageWriter& request) {
  const Timed part(engine_.trace(), clock_, [&] { return request_span(request.bytes(), server); });
  std::optional<fabric::PeerId> known;
  {
    std::lock_guard lock(mutex_);
    known = links_[static_cast<std::size_t>(server)].peer;
  }
  if (known) (void)processes_->tell(*known, request.bytes());
}

std::uint64_t Links::notices() const { return listener_->notices(); }

void Links::wait(std::uint64_t seen, std::int64_t until_ns) {
  const Timed part(engine_.trace(), clock_, [] { return part_span("wait for a notice"); });
  constexpr std::int64_t look_ns = std::chrono::nanoseconds(interruption_look).count();
  while (!listener_->wait(seen, std::min(until_ns, now_ns() + look_ns))) {
    if (now_ns() >= until_ns || (interrupted_ && interrupted_())) return;
  }
}

}  // namespace tranship::staging
