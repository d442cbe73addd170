#include "staging/links.hpp"

#include <algorithm>
#include <condition_variable>

namespace tranship::staging {
namespace {

constexpr std::chrono::milliseconds control_wait_max{10'000};
constexpr int servers_max = 1 << 16;

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
  void wait(std::uint64_t seen, std::int64_t until_ns) {
    using Time = std::chrono::steady_clock::time_point;
    std::unique_lock lock(mutex_);
    condition_.wait_until(lock, Time(std::chrono::nanoseconds(until_ns)),
                          [&] { return notices_ != seen; });
  }

 private:
  void wake() {
    std::lock_guard lock(mutex_);
    ++notices_;
    condition_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable condition_;
  std::uint64_t notices_ = 0;
};

Links::Links(Engine& engine, std::string name)
    : engine_(engine), name_(std::move(name)), listener_(std::make_shared<Listener>()) {}

Result<std::unique_ptr<Links>> Links::open(Engine& engine, const std::string& contact,
                                           const std::string& name,
                                           std::chrono::milliseconds timeout) {
  auto processes = engine.processes();
  if (!processes) return processes.error();
  std::unique_ptr<Links> links(new Links(engine, name));
  links->processes_ = *processes;
  links->links_.push_back({contact, {}});
  auto first = links->connect(contact, 0, timeout);
  if (!first) return first.error();
  links->links_[0].peer = first->peer;
  return links;
}

Links::~Links() { (void)close(); }

Status Links::close() {
  if (processes_ == nullptr || engine_.closed()) return {};
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
  const auto peer = processes_->connect(contact, timeout);
  if (!peer) return peer.error();
  processes_->listen(*peer, listener_);
  if (Status status = greet(*peer, rank, end_ns); !status) {
    processes_->listen(*peer, nullptr);
    (void)processes_->disconnect(*peer);
    return status.error();
  }
  return Link{contact, *peer};
}

Status Links::greet(PeerId peer, int rank, std::int64_t end_ns) {
  MessageWriter question;
  question.add(Ask::hello).add(staging_version).text(name_);
  ReplyBuffer reply;
  while (true) {
    const std::uint64_t seen = notices();
    const auto answer = ask(peer, question, reply);
    if (!answer) {
      const bool foreign = answer.error().code == ErrorCode::unsupported;
      return foreign ? not_a_server() : answer.error();
    }
    MessageReader in(*answer);
    if (in.get<Said>() != Said::waiting) return read_greeting(*answer, rank);
    if (now_ns() >= end_ns) return Error{ErrorCode::timeout, in.text() + "; wait longer"};
    wait(seen, std::min(end_ns, now_ns() + look_again_ns));
  }
}

Status Links::read_greeting(std::span<const std::byte> answer, int rank) {
  MessageReader in(answer);
  (void)in.get<Said>();
  const auto message_bytes = in.get<std::int64_t>();
  const auto its_rank = in.get<int>();
  const auto servers = in.get<int>();
  if (!in.ok() || message_bytes < message_bytes_least || servers < 1 || servers > servers_max) {
    return not_a_server();
  }
  if (its_rank != rank) {
    return Error{ErrorCode::invalid_argument,
                 "this is server " + std::to_string(its_rank) + " of " + std::to_string(servers) +
                     "; connect to the first one, whose contact file names it"};
  }
  if (rank > 0) {
    if (message_bytes == message_bytes_) return {};
    return Error{ErrorCode::invalid_argument,
                 "the servers have different settings: start all with the same slot_bytes"};
  }
  message_bytes_ = message_bytes;
  (void)in.text();  // the contact by which it was found is its own
  for (int k = 1; k < servers; ++k) links_.push_back({in.text(), {}});
  return in.ok() ? Status{} : Status(not_a_server());
}

Result<PeerId> Links::peer(int server) {
  std::lock_guard lock(mutex_);
  Link& link = links_[static_cast<std::size_t>(server)];
  if (link.peer) return *link.peer;
  auto made = connect(link.contact, server, control_wait_max);
  if (!made) {
    Error error = made.error();
    error.message = "staging server " + std::to_string(server) + " of " +
                    std::to_string(links_.size()) + ": " + error.message;
    return error;
  }
  link.peer = made->peer;
  return *link.peer;
}

Result<std::span<const std::byte>> Links::ask(PeerId peer, const MessageWriter& question,
                                              ReplyBuffer& reply) const {
  const auto room = static_cast<std::size_t>(message_bytes_);
  if (!reply) reply = std::make_unique_for_overwrite<std::byte[]>(room);
  const auto length =
      processes_->ask(peer, question.bytes(), {reply.get(), room}, control_wait_max);
  if (!length) return length.error();
  return std::span<const std::byte>(reply.get(), *length);
}

Result<std::span<const std::byte>> Links::ask(int server, const MessageWriter& question,
                                              ReplyBuffer& reply) {
  const auto known = peer(server);
  if (!known) return known.error();
  return ask(*known, question, reply);
}

std::uint64_t Links::notices() const { return listener_->notices(); }

void Links::wait(std::uint64_t seen, std::int64_t until_ns) { listener_->wait(seen, until_ns); }

}  // namespace tranship::staging
