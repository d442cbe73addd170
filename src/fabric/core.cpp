#include "fabric/core.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.hpp"
#include "fabric/socket_wire.hpp"

namespace tranship {
namespace {

constexpr std::chrono::milliseconds tick_interval{100};
constexpr std::chrono::milliseconds fence_interval{5};
constexpr std::chrono::milliseconds goodbye_max{300};
constexpr std::chrono::seconds handshake_max{10};
constexpr std::uint64_t wire_event = ~std::uint64_t{0};
constexpr std::uint64_t inbox_event = wire_event - 1;

bool add_to_epoll(const FileDescriptor& epoll, int descriptor, std::uint64_t tag) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag;
  return epoll_ctl(epoll.get(), EPOLL_CTL_ADD, descriptor, &event) == 0;
}

Error no_descriptors() {
  return {ErrorCode::io, std::string("no descriptors for links to other processes: ") +
                             std::strerror(errno) + "; raise the limit (ulimit -n)"};
}

/// The key of this process's engines that were given none.
Result<Key> process_key() {
  static std::mutex mutex;
  static std::optional<Key> made;
  std::lock_guard lock(mutex);
  if (made) return *made;
  Key key{};
  if (Status status = fill_random(key); !status) return status.error();
  made = key;
  return key;
}

}  // namespace

Inbox::Inbox() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Inbox::~Inbox() = default;

bool Inbox::post(std::function<void()> task) {
  std::lock_guard lock(mutex_);
  if (closed_) return false;
  tasks_.push_back(std::move(task));
  if (asleep_) {
    asleep_ = false;
    const std::uint64_t one = 1;
    (void)!write(descriptor_.get(), &one, sizeof one);
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
  (void)!read(descriptor_.get(), &count, sizeof count);
}

void Inbox::close() {
  std::vector<std::function<void()>> dropped;
  std::lock_guard lock(mutex_);
  closed_ = true;
  dropped.swap(tasks_);
}

FabricCore::FabricCore(FabricOptions options) : options_(std::move(options)) {}

FabricCore::~FabricCore() { (void)close(); }

Status FabricCore::open() {
  const SlotGeometry geometry{options_.slots_per_peer, options_.slot_bytes};
  if (!geometry.valid()) {
    return Error{ErrorCode::invalid_argument,
                 "slots_per_peer must be 1 to " + std::to_string(slots_max) +
                     ", and slot_bytes a multiple of 4096 up to 1 GiB"};
  }
  CHECK(options_.copy, "a fabric needs a copier");
  identity_ = own_identity();
  if (Status s = fill_random(std::as_writable_bytes(std::span(&probe_value_, 1))); !s) return s;
  auto bell = SharedMemory::allocate({4096, false, false});
  if (!bell) return bell.error();
  bell_memory_ = *bell;
  if (Status status = open_wire(); !status) return status;
  service_threads_ = std::make_unique<ServiceThreads>(
      ServiceThreads::Options{options_.service_threads, options_.spin});
  epoll_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_ || inbox_->descriptor() < 0 ||
      !add_to_epoll(epoll_, wire_->event_descriptor(), wire_event) ||
      !add_to_epoll(epoll_, inbox_->descriptor(), inbox_event)) {
    return no_descriptors();
  }
  if (!options_.contact_file.empty()) {
    if (Status status = write_contact(options_.contact_file, contact_); !status) return status;
    contact_written_ = true;
  }
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& refused) {
    return Error{ErrorCode::out_of_memory, std::string("no thread for links to other processes: ") +
                                               refused.what() +
                                               "; raise the limit of threads (ulimit -u)"};
  }
  return {};
}

Status FabricCore::open_wire() {
  SocketWire::Options wire;
  const bool network_alone = options_.transport == FabricOptions::Transport::network;
  wire.listen_locally = options_.accept && !network_alone;
  if (options_.accept && options_.transport != FabricOptions::Transport::shared) {
    wire.listen = options_.listen;
    if (network_alone && wire.listen.empty()) wire.listen = "127.0.0.1:0";
  }
  auto key = options_.key ? Result<Key>(*options_.key) : process_key();
  if (!key) return key.error();
  wire.key = *key;
  wire.users = options_.users;
  wire.reconnect = options_.reconnect;
  wire.handlers.arrived = [this](ConnectionId id) { on_arrived(id); };
  wire.handlers.message = [this](ConnectionId id, const MessageHeader& header,
                                 std::span<const std::byte> body,
                                 std::span<FileDescriptor> descriptors) {
    on_message(id, header, body, descriptors);
  };
  wire.handlers.place = [this](ConnectionId id, const MessageHeader& header, std::int64_t bytes) {
    return place(id, header, bytes);
  };
  wire.handlers.lost = [this](ConnectionId id, const Error& why) { on_connection_lost(id, why); };
  auto opened = SocketWire::open(std::move(wire));
  if (!opened) return opened.error();
  wire_ = std::move(*opened);
  contact_ = wire_->contact();
  if (options_.key) contact_.key.reset();  // who has it from elsewhere needs no file for it
  return {};
}

void FabricCore::on_connection_lost(ConnectionId id, const Error& why) {
  Session* session = find(id);
  if (session == nullptr) return;
  if (session->connecting) {
    const bool known = why.code != ErrorCode::peer_lost;
    lose(*session, {why.code, "cannot connect to " + session->label + ": " + why.message +
                                  (known ? ""
                                         : "; check the address, and that the process there "
                                           "runs")});
  } else if (session->mode == LinkMode::shared && session->pidfd && !has_ended(session->pidfd)) {
    lose(*session, {ErrorCode::peer_lost, session->label + " ended its connection without a word"});
  } else {
    lose(*session, {ErrorCode::peer_lost, session->label + " was lost: " + why.message});
  }
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
  await_fences();
}

void FabricCore::sleep() {
  if (!inbox_->arm() || !wire_->arm()) return;
  epoll_event events[16];
  // While fences stand, who waits for the memory behind them should not wait long.
  const auto at_most = fences_.empty() ? tick_interval : fence_interval;
  const int count = epoll_wait(epoll_.get(), events, 16, static_cast<int>(at_most.count()));
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
  if (!fences_.empty()) lift_fences();
}

Session* FabricCore::find(ConnectionId connection) {
  const auto found = sessions_.find(connection);
  return found == sessions_.end() || found->second->lost ? nullptr : found->second.get();
}

/// A process of this machine has ended when its pidfd says so, whatever children hold its sockets.
/// Without one, memory that it may touch would stay fenced for ever.
Status FabricCore::watch_process(Session& session, const WirePeer& peer) {
  if (peer.pidfd < 0) return {};
  session.pidfd = FileDescriptor(fcntl(peer.pidfd, F_DUPFD_CLOEXEC, 0));
  if (session.pidfd && add_to_epoll(epoll_, session.pidfd.get(), session.connection)) return {};
  return no_descriptors();
}

void FabricCore::tick() {
  const auto now = Clock::now();
  for (auto& [id, session] : sessions_) {
    if (session->lost) continue;
    if (!session->client && !session->server && now - session->began > handshake_max) {
      lose(*session, {ErrorCode::timeout, "a connection that never said hello"});
    } else if (session->link && session->link->requester->unattended()) {
      (void)session->link->requester->progress();
    }
  }
  lift_fences();
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
  if (session.pidfd) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, session.pidfd.get(), nullptr);
  if (session.server) stop_serving(session, error.code == ErrorCode::closed);
  session.pidfd.reset();
  wire_->close(session.connection);
  if (session.link && options_.on_peer_lost) options_.on_peer_lost(session.peer, error);
  bell().ring();
}

/// A requester is gone when nothing of it, or for it, can touch memory of this process any more:
/// what it wrote to may be others' then. Until that it is lost, and behind a fence.
void FabricCore::stop_serving(Session& session, bool cleanly) {
  session.server->stop();
  service_threads_->remove(session.seat);
  const RequesterId requester{session.connection};
  if (options_.on_requester_lost) options_.on_requester_lost(requester, cleanly);
  const bool fenced =
      fences_.raise({requester, cleanly, std::move(session.leases), std::move(session.server),
                     std::move(session.pidfd), session.label});
  if (!fenced && options_.on_requester_gone) options_.on_requester_gone(requester, cleanly);
}

void FabricCore::lift_fences() {
  fences_.look([this](const Fences::Fence& fence) {
    if (options_.on_requester_gone) options_.on_requester_gone(fence.requester, fence.cleanly);
  });
}

void FabricCore::bury() {
  for (auto one = sessions_.begin(); one != sessions_.end();) {
    one = one->second->lost ? sessions_.erase(one) : std::next(one);
  }
}

/// Copies into and out of others' memory end first: a goodbye promises that.
void FabricCore::say_goodbye() {
  const auto end = Clock::now() + options_.peer_timeout;
  const Error closed{ErrorCode::closed, "this engine was closed"};
  for (auto& [id, session] : sessions_) {
    if (session->link) session->link->requester->fail(closed);
  }
  bell().ring();
  const auto copying = [&] {
    return std::any_of(sessions_.begin(), sessions_.end(), [](const auto& one) {
      return one.second->link && one.second->link->requester->in_use();
    });
  };
  while (copying() && Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  for (auto& [id, session] : sessions_) {
    const bool quiet = !session->link || !session->link->requester->in_use();
    if (!session->lost && quiet) send(*session, MessageType::goodbye, 0, {});
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

/// What this process exports may be used for something else once its engine is closed: peers' copies
/// end before, within a limit.
void FabricCore::await_fences() {
  const auto end = Clock::now() + options_.peer_timeout;
  for (lift_fences(); !fences_.empty() && Clock::now() < end; lift_fences()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (fences_.empty()) return;
  close_status_ = Error{ErrorCode::timeout,
                        "the engine is closed, but " + fences_.describe() +
                            " still copies into or out of an array that it exported: keep the "
                            "memory until that process has ended"};
}

Status FabricCore::close() {
  std::lock_guard lock(close_mutex_);
  if (closed_.exchange(true)) return {};
  if (thread_.joinable()) {
    inbox_->post([this] { stopping_ = true; });
    thread_.join();
  }
  inbox_->close();
  service_threads_.reset();
  wire_.reset();
  if (contact_written_) remove_contact(options_.contact_file, contact_);
  return close_status_;
}

}  // namespace tranship
