#include "fabric/sessions/core.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace tranship::fabric {
namespace {

constexpr std::chrono::milliseconds tick_interval{100};
constexpr std::chrono::milliseconds fence_interval{5};
constexpr std::chrono::milliseconds closing_interval{1};
/// A departure whose time is up is checked this many times more, some 10 ms apart, before it fails.
constexpr int late_looks_max = 200;

HandshakeTerms terms_of(const FabricOptions& options, Identity identity, int bell_descriptor) {
  HandshakeTerms terms;
  terms.greeting.protocol = options.protocol;
  terms.greeting.version = options.version;
  terms.identity = std::move(identity);
  terms.geometry = {options.slots_per_peer, options.slot_bytes,
                    std::min(options.inside_bytes, options.slot_bytes)};
  terms.bell_descriptor = bell_descriptor;
  terms.carrier = options.carrier;
  terms.no_carrier = options.no_carrier;
  terms.network_allowed = options.transport != FabricOptions::Transport::shared;
  return terms;
}

template <typename T>
bool ready(const std::future<T>& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace

FabricCore::FabricCore(FabricOptions options, FabricSeams seams)
    : seams_(std::move(seams)), parts_(std::move(options)) {
  parts_.attend = seams_.attend;
}

FabricCore::~FabricCore() { (void)close(); }

Status FabricCore::open() {
  const FabricOptions& options = parts_.options;
  CHECK(options.copy.nests && options.copy.runs, "a fabric needs a copier");
  if (Status status = parts_.bell.open(); !status) return status;
  parts_.terms = terms_of(options, seams_.identity(), parts_.bell.memory()->descriptor());
  if (!parts_.terms.geometry.valid()) {
    return Error{ErrorCode::invalid_argument,
                 "slots_per_peer must be 1 to " + std::to_string(slots_max) +
                     ", and slot_bytes a multiple of 4096 up to 1 GiB"};
  }
  auto& probe = parts_.terms.probe_value;
  if (Status s = fill_random(std::as_writable_bytes(std::span(&probe, 1))); !s) return s;
  parts_.service_threads = std::make_unique<ServiceThreads>(
      ServiceThreads::Options{options.service_threads, options.spin});
  auto wire = seams_.make_wire(sessions_.handlers());
  if (!wire) return wire.error();
  contact_ = (*wire)->contact();
  if (options.key) contact_.key.reset();  // peers have the key in their own settings
  std::lock_guard lock(mutex_);
  parts_.wire = std::move(*wire);
  return {};
}

std::shared_ptr<Wire> FabricCore::wire() const {
  std::lock_guard lock(mutex_);
  return parts_.wire;
}

void FabricCore::accept_key(const Key& key) {
  if (const auto wire = this->wire()) wire->accept_key(key);
}

bool FabricCore::step_wire() {
  const bool any = parts_.wire->progress();
  sessions_.erase_lost();
  return any;
}

bool FabricCore::step() {
  bool any = inbox_.run();
  any |= step_wire();
  if (parts_.options.carrier) any |= parts_.options.carrier->progress();
  if (sessions_.leaving()) sessions_.end_leaving();
  const auto time = now();
  closing_.step(time);
  if (time >= next_tick_) {
    sessions_.tick();
    lift_fences();
    next_tick_ = time + tick_interval;
  }
  return any;
}

std::chrono::milliseconds FabricCore::next_step_in() const {
  if (closing_.begun()) return closing_interval;
  // While fences stand, a withdrawal may wait for the memory behind them.
  return fenced() || sessions_.leaving() ? fence_interval : tick_interval;
}

Result<FabricCore::Connecting> FabricCore::start_connect(const Contact& contact,
                                                         const std::string& text) {
  const auto wire = this->wire();
  if (closed() || !wire) return engine_closed();
  const FabricOptions& options = parts_.options;
  Contact there = contact;
  {
    std::lock_guard lock(mutex_);
    if (there.key) learned_key_ = there.key;
    if (!there.key) there.key = options.key ? options.key : learned_key_;
  }
  // The requested transport is used, or the connection fails: it is never replaced by another.
  if (options.transport == FabricOptions::Transport::network) there.local.clear();
  const auto connection = wire->connect(there);
  if (!connection) return connection.error();
  auto connected = std::make_shared<std::promise<Result<PeerId>>>();
  Connecting connecting{*connection, connected->get_future()};
  const bool posted = inbox_.post([this, id = *connection, there, text, connected] {
    sessions_.connect(id, there, text, connected);
  });
  if (!posted) return engine_closed();
  return connecting;
}

void FabricCore::abandon(const Connecting& connecting) {
  inbox_.post([this, id = connecting.connection] { sessions_.abandon(id); });
}

/// Ends copies in the peer's memory before the goodbye is sent. If this takes longer than
/// peer_timeout, the peer keeps a fence around the memory.
FabricCore::Departure FabricCore::start_disconnect(PeerId peer) {
  auto link = this->link(peer);
  Departure departure{peer, link ? std::move(*link) : nullptr, peer_timeout_end_ns(), 0, {}};
  if (departure.link) {
    departure.link->fail(
        {ErrorCode::closed, "the connection to " + departure.link->label + " was closed"});
    bell().ring();
  }
  return departure;
}

std::optional<Status> FabricCore::look(Departure& departure) {
  const bool late = seams_.clock->now_ns() >= departure.end_ns;
  if (!departure.left.valid()) {
    if (departure.link && departure.link->requester->in_use() && !late) return std::nullopt;
    departure.end_ns = peer_timeout_end_ns();
    auto left = std::make_shared<std::promise<bool>>();
    departure.left = left->get_future();
    const bool posted =
        inbox_.post([this, peer = departure.peer, left] { sessions_.leave(peer, left); });
    return posted ? std::optional<Status>{} : engine_closed();
  }
  if (!ready(departure.left)) {
    // A process that was paused meanwhile is late at once, before its threads have run again.
    if (!late || ++departure.late_looks < late_looks_max) return std::nullopt;
    return Error{ErrorCode::timeout, "the thread that serves connections has not ended one"};
  }
  parts_.links.remove(departure.peer);
  return Status{};
}

Result<FabricCore::Calling> FabricCore::start_call(PeerId peer, MessageType type,
                                                   std::vector<std::byte> body) {
  auto found = this->link(peer);
  if (!found) return found.error();
  const auto link = std::move(*found);
  if (link->requester->lost()) return link->requester->lost_error();
  auto promise = std::make_shared<std::promise<Reply>>();
  Calling calling{++last_call_, link, promise->get_future(), nullptr};
  if (type == MessageType::lookup) calling.lookup = link->begin_lookup();
  const bool posted =
      inbox_.post([this, type, id = calling.id, promise, link, body = std::move(body)] {
        RequesterSession* session = sessions_.find(link->peer);
        if (session == nullptr) return promise->set_value(link->requester->lost_error());
        session->call(type, id, body, promise);
      });
  if (!posted) return engine_closed();
  return calling;
}

void FabricCore::abandon(const Calling& calling) {
  inbox_.post([this, id = calling.id, peer = calling.link->peer] {
    if (RequesterSession* session = sessions_.find(peer)) session->abandon_call(id);
  });
}

Result<std::shared_ptr<RemoteArray>> FabricCore::found(PeerId peer, const std::string& name,
                                                       Reply answer) {
  if (!answer) return answer.error();
  const auto link = this->link(peer);
  LookupReply reply;
  if (!link || !decode(answer->body, reply)) {
    return Error{ErrorCode::peer_lost, "the answer about '" + name + "' cannot be read"};
  }
  if (reply.error) {
    return Error{reply.error->code,
                 (*link)->label + " does not export '" + name + "': " + reply.error->message,
                 reply.error->hint};
  }
  return (*link)->add_array(name, std::move(reply), std::move(answer->memory));
}

/// Asks whether a requester, connected or behind a fence, still copies directly into or out of an
/// export. end: Ends the leases first, so that no new copy begins. The result is not valid after
/// close().
std::future<bool> FabricCore::ask_busy(const Export& one, bool end) {
  auto busy = std::make_shared<std::promise<bool>>();
  auto future = busy->get_future();
  const bool posted = inbox_.post([this, end, busy, export_id = one.id(), index = one.index()] {
    busy->set_value(sessions_.withdraw(export_id, index, end));
  });
  return posted ? std::move(future) : std::future<bool>();
}

Result<FabricCore::Withdrawal> FabricCore::start_withdraw(const std::string& name) {
  const auto removed = exports().begin_withdrawal(name);
  if (!removed) return Error{ErrorCode::not_found, "'" + name + "' is not exported"};
  return Withdrawal{removed, peer_timeout_end_ns(), ask_busy(*removed, true)};
}

std::optional<Status> FabricCore::look(Withdrawal& withdrawal) {
  const Export& one = *withdrawal.one;
  const bool late = seams_.clock->now_ns() >= withdrawal.end_ns;
  bool busy = true;
  if (!withdrawal.busy.valid()) {
    busy = parts_.fences.in_use(one.index());  // closed: no thread changes the fences any more
  } else if (ready(withdrawal.busy)) {
    busy = withdrawal.busy.get();
  } else if (!late) {
    return std::nullopt;
  }
  if (!busy && exports().wait_unused(one, std::chrono::milliseconds(0))) {
    exports().end_withdrawal(one);
    return Status{};
  }
  if (!late) {
    withdrawal.busy = ask_busy(one, false);
    return std::nullopt;
  }
  return Error{ErrorCode::timeout,
               "'" + one.array().name + "' was withdrawn, but a peer is still using it",
               "keep its memory, and withdraw it again"};
}

Status FabricCore::notify(RequesterId requester, std::vector<std::byte> body) {
  const bool posted =
      inbox_.post([this, requester, body = std::move(body)] { sessions_.notify(requester, body); });
  return posted ? Status{} : engine_closed();
}

void FabricCore::start_close() {
  closed_ = true;
  inbox_.post([this] { closing_.start(now()); });
}

Status FabricCore::close() {
  closed_ = true;
  if (!finished()) closing_.stop();
  inbox_.close();
  sessions_.erase_lost();
  parts_.service_threads.reset();
  std::lock_guard lock(mutex_);
  parts_.wire.reset();
  return closing_.status();
}

}  // namespace tranship::fabric
