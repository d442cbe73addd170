#include "fabric/core.hpp"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "base/check.hpp"

namespace tranship {
namespace {

constexpr std::chrono::milliseconds tick_interval{100};
constexpr std::chrono::milliseconds goodbye_max{300};
constexpr std::chrono::seconds handshake_max{10};
constexpr std::uint64_t wire_event = ~std::uint64_t{0};
constexpr std::uint64_t inbox_event = wire_event - 1;

void add_to_epoll(int epoll, int descriptor, std::uint64_t tag) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag;
  epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event);
}

}  // namespace

Inbox::Inbox() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Inbox::~Inbox() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool Inbox::post(std::function<void()> task) {
  std::lock_guard lock(mutex_);
  if (closed_) return false;
  tasks_.push_back(std::move(task));
  if (asleep_) {
    asleep_ = false;
    const std::uint64_t one = 1;
    (void)!write(descriptor_, &one, sizeof one);
  }
  return true;
}

bool Inbox::run() {
  {
    std::lock_guard lock(mutex_);
    asleep_ = false;
    if (tasks_.empty()) return false;
    running_.swap(tasks_);
  }
  for (auto& task : running_) task();
  running_.clear();
  return true;
}

bool Inbox::arm() {
  std::lock_guard lock(mutex_);
  asleep_ = tasks_.empty();
  return asleep_;
}

void Inbox::drain() {
  std::uint64_t count = 0;
  (void)!read(descriptor_, &count, sizeof count);
}

void Inbox::close() {
  std::vector<std::function<void()>> dropped;
  std::lock_guard lock(mutex_);
  closed_ = true;
  dropped.swap(tasks_);
}

FabricCore::FabricCore(FabricOptions options) : options_(std::move(options)) {}

FabricCore::~FabricCore() {
  (void)close();
  if (epoll_ >= 0) ::close(epoll_);
}

Status FabricCore::open() {
  const SlotGeometry geometry{options_.slots_per_peer, options_.slot_bytes};
  if (!geometry.valid()) {
    return Error{ErrorCode::invalid_argument,
                 "slots_per_peer must be 1 to " + std::to_string(slots_max) +
                     ", and slot_bytes a multiple of 4096 up to 1 GiB"};
  }
  CHECK(options_.copy, "a fabric needs a copier");
  identity_ = own_identity();
  std::random_device random;
  probe_value_ = (std::uint64_t{random()} << 32) | random();
  auto bell = SharedMemory::allocate({4096, false});
  if (!bell) return bell.error();
  bell_memory_ = *bell;
  Wire::Options wire;
  wire.listen = options_.listen;
  wire.tcp_only = options_.transport == FabricOptions::Transport::network;
  wire.handlers.arrived = [this](ConnectionId id) { on_arrived(id); };
  wire.handlers.message = [this](ConnectionId id, const MessageHeader& header,
                                 std::span<const std::byte> body) { on_message(id, header, body); };
  wire.handlers.lost = [this](ConnectionId id, const std::string& why) {
    Session* session = find(id);
    if (session == nullptr) return;
    const bool connecting = session->connecting != nullptr;
    lose(*session, {ErrorCode::peer_lost,
                    connecting ? "cannot connect to " + session->label + ": " + why +
                                     "; check the address, and that the process there runs"
                               : session->label + " was lost: " + why});
  };
  auto opened = Wire::open(std::move(wire));
  if (!opened) return opened.error();
  wire_ = std::move(*opened);
  address_ = wire_->address();
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  add_to_epoll(epoll_, wire_->event_descriptor(), wire_event);
  add_to_epoll(epoll_, inbox_->descriptor(), inbox_event);
  if (!options_.contact_file.empty()) {
    auto status = write_contact(options_.contact_file, {address_, identity_});
    if (!status) return status;
    contact_written_ = true;
  }
  thread_ = std::thread([this] { run(); });
  return {};
}

void FabricCore::run() {
  auto busy = Clock::now();
  while (!stopping_) {
    bool any = inbox_->run();
    any |= wire_->progress();
    bury();
    const auto now = Clock::now();
    if (now >= next_tick_) {
      tick();
      next_tick_ = now + tick_interval;
    }
    if (any) {
      busy = now;
    } else if (now - busy < options_.spin) {
      sched_yield();
    } else {
      sleep();
    }
  }
  say_goodbye();
  for (auto& [id, session] : sessions_) {
    lose(*session, {ErrorCode::closed, "this engine was closed"});
  }
  bury();
  wire_->drain();
  for (auto& session : buried_) wire_->release(session->registered);
  wire_.reset();
  buried_.clear();
}

void FabricCore::sleep() {
  if (!inbox_->arm() || !wire_->arm()) return;
  epoll_event events[16];
  const int count = epoll_wait(epoll_, events, 16, static_cast<int>(tick_interval.count()));
  for (int k = 0; k < count; ++k) {
    const std::uint64_t tag = events[k].data.u64;
    if (tag == inbox_event) {
      inbox_->drain();
    } else if (tag != wire_event) {
      // It may have said goodbye before it ended: that is read first.
      for (int tries = 0; tries < 1000 && wire_->progress(); ++tries) continue;
      Session* session = find(tag);
      if (session == nullptr) continue;
      lose(*session, {ErrorCode::peer_lost, session->label + " ended without closing: its "
                                                             "process died"});
    }
  }
}

Session* FabricCore::find(ConnectionId connection) {
  const auto found = sessions_.find(connection);
  return found == sessions_.end() || found->second->lost ? nullptr : found->second.get();
}

void FabricCore::watch_process(Session& session) {
  auto descriptor = watch(session.identity);
  if (descriptor) {
    session.pidfd = *descriptor;
    add_to_epoll(epoll_, session.pidfd, session.connection);
  }
}

void FabricCore::tick() {
  const auto now = Clock::now();
  for (auto& [id, session] : sessions_) {
    if (session->lost) continue;
    if (!session->client && !session->server && now - session->began > handshake_max) {
      lose(*session, {ErrorCode::timeout, "a connection that never said hello"});
    } else if (session->link) {
      check_stuck(*session, now);
      if (session->link->requester->unattended()) (void)session->link->requester->progress();
    }
  }
}

/// A process can be stopped, or its machine lose power, without any connection breaking.
void FabricCore::check_stuck(Session& session, Clock::time_point now) {
  const Requester& requester = *session.link->requester;
  const std::uint64_t answers = requester.answers();
  if (!requester.outstanding() || answers != session.answers_seen) {
    session.answers_seen = answers;
    session.moved = now;
    session.ping_due = false;
    return;
  }
  const auto patience = options_.peer_timeout / 4;
  if (session.ping_due && now - session.pinged > 3 * patience) {
    lose(session, {ErrorCode::peer_lost, session.label + " has not answered for " +
                                             std::to_string(options_.peer_timeout.count()) +
                                             " ms: it is stopped or cannot be reached"});
  } else if (!session.ping_due && now - session.moved > patience) {
    session.ping_due = true;
    session.pinged = now;
    send(session, MessageType::ping, 0, {});
  }
}

void FabricCore::lose(Session& session, Error error) {
  if (session.lost) return;
  session.lost = true;
  if (session.leaving) {
    error = {ErrorCode::closed, "the connection to " + session.label + " was closed"};
  }
  if (stopping_) error = {ErrorCode::closed, "this engine was closed"};
  if (session.connecting) session.connecting->set_value(error);
  session.connecting.reset();
  if (session.link) session.link->requester->fail(error);
  for (auto& [id, promise] : session.calls) promise->set_value(error);
  session.calls.clear();
  if (session.server) {
    session.server->stop();
    tell_gone(*session.server, RequesterId{session.connection}, error.code == ErrorCode::closed);
  }
  if (session.pidfd >= 0) {
    epoll_ctl(epoll_, EPOLL_CTL_DEL, session.pidfd, nullptr);
    ::close(session.pidfd);
    session.pidfd = -1;
  }
  wire_->close(session.connection);
  if (session.link && options_.on_peer_lost) options_.on_peer_lost(session.peer, error);
  bell().ring();
}

/// A requester is gone when nothing writes for it any more: what it wrote to may be others' then.
void FabricCore::tell_gone(SlotServer& server, RequesterId requester, bool cleanly) {
  if (!options_.on_requester_gone) return;
  const auto tell = [this, requester, cleanly] { options_.on_requester_gone(requester, cleanly); };
  if (!server.call_when_idle([inbox = inbox_, tell] { inbox->post(tell); })) tell();
}

void FabricCore::bury() {
  for (auto one = sessions_.begin(); one != sessions_.end();) {
    if (!one->second->lost) {
      ++one;
      continue;
    }
    one->second->server.reset();
    one->second->link.reset();
    if (one->second->registered.handle != nullptr) buried_.push_back(std::move(one->second));
    one = sessions_.erase(one);
  }
  // UCX has let go of a closed connection's memory long before so many more were closed.
  constexpr std::size_t buried_max = 8;
  while (buried_.size() > buried_max) {
    wire_->release(buried_.front()->registered);
    buried_.erase(buried_.begin());
  }
}

void FabricCore::say_goodbye() {
  for (auto& [id, session] : sessions_) {
    if (!session->lost) send(*session, MessageType::goodbye, 0, {});
  }
  await_goodbye([this] {
    bury();
    return sessions_.empty();
  });
}

void FabricCore::leave(Session& session) {
  session.leaving = true;
  send(session, MessageType::goodbye, 0, {});
  await_goodbye([&] { return session.lost; });
  lose(session, {});
}

/// A peer closes its end when it has read the goodbye: leaving earlier could reset the connection
/// under it, and a clean close would look like a death.
void FabricCore::await_goodbye(const std::function<bool()>& read) {
  const auto end = Clock::now() + goodbye_max;
  while (!read() && Clock::now() < end) {
    if (!wire_->progress()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

Status FabricCore::close() {
  std::lock_guard lock(close_mutex_);
  if (closed_.exchange(true)) return {};
  if (thread_.joinable()) {
    inbox_->post([this] { stopping_ = true; });
    thread_.join();
  }
  inbox_->close();
  wire_.reset();
  if (contact_written_) {
    // Another engine may have taken the name over.
    const auto contact = read_contact(options_.contact_file);
    if (contact && contact->address == address_) unlink(options_.contact_file.c_str());
  }
  return {};
}

}  // namespace tranship
