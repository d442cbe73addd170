#include "fabric/sessions/core.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.hpp"

namespace tranship::fabric {
namespace {

constexpr std::chrono::milliseconds tick_interval{100};
constexpr std::chrono::milliseconds fence_interval{5};
constexpr std::chrono::milliseconds closing_interval{1};
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
  return {ErrorCode::io,
          std::string("no descriptors for links to other processes: ") + std::strerror(errno),
          "raise the limit (ulimit -n)"};
}

}  // namespace

FabricCore::FabricCore(FabricOptions options)
    : options_(std::move(options)), seams_(real_seams(options_)) {}

FabricCore::FabricCore(FabricOptions options, FabricSeams seams)
    : options_(std::move(options)), seams_(std::move(seams)) {}

FabricCore::~FabricCore() { (void)close(); }

Status FabricCore::open() {
  const SlotGeometry geometry = this->geometry();
  if (!geometry.valid()) {
    return Error{ErrorCode::invalid_argument,
                 "slots_per_peer must be 1 to " + std::to_string(slots_max) +
                     ", and slot_bytes a multiple of 4096 up to 1 GiB"};
  }
  CHECK(options_.copy.nests && options_.copy.runs, "a fabric needs a copier");
  auto& probe = terms_.probe_value;
  if (Status s = fill_random(std::as_writable_bytes(std::span(&probe, 1))); !s) return s;
  auto bell = SharedMemory::allocate({4096, false, false});
  if (!bell) return bell.error();
  bell_memory_ = *bell;
  set_terms();
  if (Status status = open_wire(); !status) return status;
  const int threads = seams_.threads ? std::max(options_.service_threads, 1) : 0;
  service_threads_ =
      std::make_unique<ServiceThreads>(ServiceThreads::Options{threads, options_.spin});
  return seams_.threads ? start_thread() : Status{};
}

Status FabricCore::start_thread() {
  epoll_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_ || inbox_->descriptor() < 0 ||
      !add_to_epoll(epoll_, wire_->event_descriptor(), wire_event) ||
      !add_to_epoll(epoll_, inbox_->descriptor(), inbox_event)) {
    return no_descriptors();
  }
  if (Status status = open_attendance(); !status) return status;
  if (!options_.contact_file.empty()) {
    if (Status status = write_contact(options_.contact_file, contact_); !status) return status;
    contact_written_ = true;
  }
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& refused) {
    return Error{ErrorCode::out_of_memory,
                 std::string("no thread for links to other processes: ") + refused.what(),
                 "raise the limit of threads (ulimit -u)"};
  }
  return {};
}

Status FabricCore::open_wire() {
  Wire::Handlers handlers;
  handlers.arrived = [this](ConnectionId id) { on_arrived(id); };
  handlers.message =
      [this](ConnectionId id, const MessageHeader& header, std::span<const std::byte> body,
             std::span<FileDescriptor> descriptors) { on_message(id, header, body, descriptors); };
  handlers.place = [this](ConnectionId id, const MessageHeader& header,
                          std::span<const std::byte> body, std::int64_t offset,
                          std::int64_t left) { return place(id, header, body, offset, left); };
  handlers.lost = [this](ConnectionId id, const Error& why) { on_connection_lost(id, why); };
  auto opened = seams_.make_wire(std::move(handlers));
  if (!opened) return opened.error();
  {
    std::lock_guard lock(links_mutex_);
    wire_ = std::move(*opened);
  }
  contact_ = wire_->contact();
  if (options_.key) contact_.key.reset();  // peers have the key in their own settings
  return {};
}

void FabricCore::on_connection_lost(ConnectionId id, const Error& why) {
  Session* session = find(id);
  if (session == nullptr) return;
  if (session->connecting) {
    const bool known = why.code != ErrorCode::peer_lost;
    lose(*session, {why.code, "cannot connect to " + session->label + ": " + why.message,
                    known ? why.hint : "check the address, and that the process there runs"});
  } else {
    lose(*session, {ErrorCode::peer_lost, session->label + " was lost: " + why.message, why.hint});
  }
}

bool FabricCore::step_wire() {
  const bool any = wire_->progress();
  erase_lost();
  return any;
}

bool FabricCore::step() {
  bool any = inbox_->run();
  any |= step_wire();
  if (options_.carrier) any |= options_.carrier->progress();
  if (leaving_ > 0) end_leaving();
  if (phase_ != Phase::open) go_on_closing();
  if (const auto time = now(); time >= next_tick_) {
    tick();
    next_tick_ = time + tick_interval;
  }
  return any;
}

void FabricCore::run() {
  auto busy = now();
  while (!finished()) {
    bool any = false;
    {
      std::lock_guard lock(step_mutex_);
      any = step();
    }
    const auto time = now();
    if (any) {
      busy = time;
    } else if (time - busy < options_.spin) {
      sched_yield();
    } else {
      sleep();
    }
  }
}

void FabricCore::sleep() {
  if (!inbox_->arm() || !wire_->arm()) return;
  epoll_event events[16];
  std::chrono::milliseconds at_most = tick_interval;
  {
    std::lock_guard lock(step_mutex_);
    // While fences stand, a withdrawal may wait for the memory behind them.
    const bool soon = !fences_.empty() || leaving_ > 0;
    if (phase_ != Phase::open || soon) {
      at_most = phase_ != Phase::open ? closing_interval : fence_interval;
    }
  }
  const int count = epoll_wait(epoll_.get(), events, 16, static_cast<int>(at_most.count()));
  std::lock_guard lock(step_mutex_);
  for (int k = 0; k < count; ++k) {
    const std::uint64_t tag = events[k].data.u64;
    if (tag == inbox_event) {
      inbox_->drain();
    } else if (tag != wire_event) {
      on_process_ended(tag);
    }
  }
  if (!fences_.empty()) lift_fences();
}

void FabricCore::ring() {
  bell().ring();
  if (!attended_.load(std::memory_order_seq_cst)) return;
  const std::uint64_t one = 1;
  (void)!write(attention_.get(), &one, sizeof one);
}

Status FabricCore::open_attendance() {
  attendance_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  attention_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (attendance_ && attention_ &&
      add_to_epoll(attendance_, wire_->event_descriptor(), wire_event) &&
      add_to_epoll(attendance_, attention_.get(), inbox_event)) {
    return {};
  }
  return no_descriptors();
}

/// Sets whether messages on the wire wake the progress thread.
void FabricCore::watch_wire(const Wire& wire, bool watched) {
  epoll_event event{};
  if (watched) event.events = EPOLLIN;
  event.data.u64 = wire_event;
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, wire.event_descriptor(), &event);
}

/// Handles messages while a caller attends to the wire. All other work is left to the progress
/// thread, which is woken if a fence was raised, since it would otherwise sleep too long.
bool FabricCore::step_for_caller() {
  std::lock_guard lock(step_mutex_);
  if (phase_ == Phase::closed) return false;
  const bool fenced_before = !fences_.empty();
  const bool any = step_wire();
  if (!fenced_before && !fences_.empty()) inbox_->post([] {});
  return any;
}

void FabricCore::attend(std::uint32_t seen, std::chrono::nanoseconds at_most) {
  const auto wire = this->wire();
  const std::unique_lock attending(attending_mutex_, std::try_to_lock);
  if (!attending || !wire || closed()) return bell().wait(seen, at_most);
  const auto end = std::chrono::steady_clock::now() + at_most;
  attended_.store(true, std::memory_order_seq_cst);
  watch_wire(*wire, false);
  auto busy = std::chrono::steady_clock::now();
  while (bell().rings() == seen && !closed()) {
    const bool any = step_for_caller();
    const auto time = std::chrono::steady_clock::now();
    if (time >= end) break;
    if (any) busy = time;
    if (time - busy < options_.spin) {
      if (!any) sched_yield();
      continue;
    }
    epoll_event events[4];
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - time);
    const int wait_ms = static_cast<int>(std::min(left, tick_interval).count());
    const int count = epoll_wait(attendance_.get(), events, 4, wait_ms);
    for (int k = 0; k < count; ++k) {
      std::uint64_t rung = 0;
      if (events[k].data.u64 == inbox_event) (void)!read(attention_.get(), &rung, sizeof rung);
    }
  }
  watch_wire(*wire, true);  // close() may have released its own reference meanwhile
  attended_.store(false, std::memory_order_seq_cst);
}

void FabricCore::on_process_ended(ConnectionId connection) {
  // A goodbye that the process sent before it exited is read first.
  for (int tries = 0; tries < 1000 && wire_->progress(); ++tries) continue;
  Session* session = find(connection);
  if (session == nullptr) return;
  lose(*session, {ErrorCode::peer_lost, session->label + " ended without closing: its "
                                                         "process died"});
}

Session* FabricCore::find(ConnectionId connection) {
  const auto found = sessions_.find(connection);
  return found == sessions_.end() || found->second->lost ? nullptr : found->second.get();
}

/// Watches the process at the other end. Its pidfd becomes readable when it exits, even if its
/// children hold its sockets. Without a pidfd, memory that the process may access would stay fenced
/// forever.
Status FabricCore::watch_process(Session& session, const WirePeer& peer) {
  if (peer.pidfd < 0) return {};
  session.pidfd = FileDescriptor(fcntl(peer.pidfd, F_DUPFD_CLOEXEC, 0));
  if (!session.pidfd) return no_descriptors();
  if (!epoll_) return {};  // without threads, the owner calls on_process_ended()
  if (add_to_epoll(epoll_, session.pidfd.get(), session.connection)) return {};
  return no_descriptors();
}

void FabricCore::tick() {
  const auto time = now();
  for (auto& [id, session] : sessions_) {
    if (session->lost) continue;
    if (!session->client && !session->server && time - session->began > handshake_max) {
      lose(*session, {ErrorCode::timeout, "a process connected and sent no hello in time"});
    } else if (session->link && session->link->requester->unattended()) {
      (void)session->link->requester->progress();
    }
  }
  lift_fences();
}

void FabricCore::lose(Session& session, Error error) {
  if (session.lost) return;
  session.lost = true;
  if (session.left) session.left->set_value(true);
  if (session.leaving) {
    --leaving_;
    error = {ErrorCode::closed, "the connection to " + session.label + " was closed"};
  }
  if (phase_ != Phase::open) error = {ErrorCode::closed, "this engine was closed"};
  if (session.connecting) session.connecting->set_value(error);
  session.connecting.reset();
  if (session.link) session.link->fail(error);
  for (auto& [id, promise] : session.calls) promise->set_value(error);
  session.calls.clear();
  if (session.pidfd && epoll_) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, session.pidfd.get(), nullptr);
  if (session.server) stop_serving(session, error.code == ErrorCode::closed);
  session.pidfd.reset();
  wire_->close(session.connection);
  if (session.link && options_.on_peer_lost) options_.on_peer_lost(session.peer, error);
  ring();
}

/// Ends the service of a lost requester. The requester counts as gone, and the memory that it wrote
/// to may have another use, once nothing can access memory of this process for it any more; until
/// then a fence stands.
void FabricCore::stop_serving(Session& session, bool cleanly) {
  session.server->stop();
  service_threads_->remove(session.seat);
  LeaseGrants leases = session.grants.end();
  const RequesterId requester{session.connection};
  if (options_.on_requester_lost) options_.on_requester_lost(requester, cleanly);
  const bool fenced =
      fences_.raise({requester, cleanly, std::move(leases), std::move(session.server),
                     std::move(session.pidfd), session.label});
  if (!fenced && options_.on_requester_gone) options_.on_requester_gone(requester, cleanly);
}

void FabricCore::lift_fences() {
  fences_.look([this](const Fences::Fence& fence) {
    if (options_.on_requester_gone) options_.on_requester_gone(fence.requester, fence.cleanly);
  });
}

void FabricCore::erase_lost() {
  for (auto one = sessions_.begin(); one != sessions_.end();) {
    one = one->second->lost ? sessions_.erase(one) : std::next(one);
  }
}

bool FabricCore::copying() const {
  return std::any_of(sessions_.begin(), sessions_.end(), [](const auto& one) {
    return one.second->link && one.second->link->requester->in_use();
  });
}

/// Enters the next phase of closing when it is due.
void FabricCore::go_on_closing() {
  const bool late = now() >= phase_end_;
  switch (phase_) {
    case Phase::open:
    case Phase::closed: return;
    case Phase::ending_copies:
      if (!copying() || late) say_goodbye();
      return;
    case Phase::saying_goodbye:
      send_goodbyes(late);
      if (sessions_.empty() || late) end_sessions();
      return;
    case Phase::lifting_fences:
      lift_fences();
      if (fences_.empty() || late) end_fences();
  }
}

/// Ends the copies into and out of peers' memory first, as a goodbye promises.
void FabricCore::start_close() {
  inbox_->post([this] {
    if (phase_ != Phase::open) return;
    phase_ = Phase::ending_copies;
    phase_end_ = now() + options_.peer_timeout;
    const Error closed{ErrorCode::closed, "this engine was closed"};
    for (auto& [id, session] : sessions_) {
      if (session->link) session->link->fail(closed);
    }
    ring();
  });
}

/// Sends goodbyes, and waits: a peer closes its end when it has read its goodbye. Closing earlier
/// could reset the connection, so that a clean close would look like a crash.
void FabricCore::say_goodbye() {
  phase_ = Phase::saying_goodbye;
  phase_end_ = now() + goodbye_max;
  send_goodbyes(false);
}

/// Sends a goodbye to each peer to which no answer is under way: a peer that reads a goodbye no
/// longer waits for answers. late: Sends a goodbye to all peers, so that they are informed of the
/// close.
void FabricCore::send_goodbyes(bool late) {
  for (auto& [id, session] : sessions_) {
    const bool quiet = !session->link || !session->link->requester->in_use();
    const bool told = session->lost || session->leaving || session->said_goodbye;
    if (told || !quiet || !(late || wire_->in_order(session->connection))) continue;
    session->said_goodbye = true;
    send(*session, MessageType::goodbye, 0, {});
  }
}

void FabricCore::end_sessions() {
  for (auto& [id, session] : sessions_) {
    lose(*session, {ErrorCode::closed, "this engine was closed"});
  }
  erase_lost();
  wire_->drain();
  phase_ = Phase::lifting_fences;
  phase_end_ = now() + options_.peer_timeout;
}

/// Ends the last phase. If a peer still copies into or out of an exported array, close() returns an
/// error: the memory may not have another use yet.
void FabricCore::end_fences() {
  phase_ = Phase::closed;
  if (fences_.empty()) return;
  close_status_ = Error{ErrorCode::timeout,
                        "the engine is closed, but " + fences_.describe() +
                            " still copies into or out of an array that it exported",
                        "keep the memory until that process has exited"};
}

void FabricCore::leave(Session& session, std::shared_ptr<std::promise<bool>> left) {
  if (session.leaving) {
    left->set_value(true);
    return;
  }
  session.leaving = true;
  session.leaves_by = now() + goodbye_max;
  session.left = std::move(left);
  ++leaving_;
  if (session.link->requester->in_use()) {
    lose(session, {});  // without a goodbye, which would promise that no copy is under way
  } else {
    send(session, MessageType::goodbye, 0, {});
  }
}

void FabricCore::end_leaving() {
  const auto time = now();
  for (auto& [id, session] : sessions_) {
    if (session->leaving && time >= session->leaves_by) lose(*session, {});
  }
}

Status FabricCore::close() {
  std::lock_guard lock(close_mutex_);
  if (closed_.exchange(true)) return {};
  if (thread_.joinable()) {
    start_close();
    thread_.join();
  }
  {
    std::lock_guard lock(step_mutex_);
    phase_ = Phase::closed;
    inbox_->close();
    erase_lost();
  }
  service_threads_.reset();
  {
    std::lock_guard links(links_mutex_);
    wire_.reset();
  }
  if (contact_written_) remove_contact(options_.contact_file, contact_);
  return close_status_;
}

}  // namespace tranship::fabric
