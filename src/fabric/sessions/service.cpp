// The messages of a link, and the methods that wait for replies.
#include <algorithm>
#include <cstring>
#include <thread>

#include "fabric/links/slot_messages.hpp"
#include "fabric/sessions/core.hpp"

namespace tranship::fabric {
namespace {

/// A departure whose time is up is checked this many times more, some 10 ms apart, before it fails.
constexpr int late_looks_max = 200;
constexpr std::chrono::milliseconds full_queue_pause{2};

std::chrono::milliseconds at_least_one(std::chrono::milliseconds timeout) {
  return std::max(timeout, std::chrono::milliseconds(1));
}

}  // namespace

void FabricCore::send(Session& session, MessageType type, std::uint64_t call,
                      std::span<const std::byte> body, std::span<const int> descriptors) {
  WireMessage message;
  message.header.type = type;
  message.header.call = call;
  message.body = body;
  message.descriptors = descriptors;
  wire_->send(session.connection, message);
}

void FabricCore::on_message(ConnectionId connection, const MessageHeader& header,
                            std::span<const std::byte> body,
                            std::span<FileDescriptor> descriptors) {
  Session* session = find(connection);
  if (session == nullptr) return;
  switch (header.type) {
    case MessageType::hello:
    case MessageType::welcome:
    case MessageType::ready:
    case MessageType::accepted: on_handshake(*session, header.type, body, descriptors); break;
    case MessageType::goodbye:
      lose(*session, {ErrorCode::closed, session->label + " closed its engine"});
      break;
    default:
      session->client ? receive(*session, header, body, descriptors)
                      : serve(*session, header, body);
  }
}

ReceiveBuffer FabricCore::place(ConnectionId connection, const MessageHeader& header,
                                std::span<const std::byte> body, std::int64_t offset,
                                std::int64_t left) {
  const Session* session = find(connection);
  if (session == nullptr || session->mode != LinkMode::network) return {};
  if (header.slot >= static_cast<std::uint32_t>(slots_max)) return {};
  const int slot = static_cast<int>(header.slot);
  if (session->link && header.type == MessageType::answered) {
    return session->link->requester->place(slot, offset, left);
  }
  if (session->server && header.type == MessageType::submitted) {
    return session->server->place(slot, command_in(body), offset, left);
  }
  return {};
}

/// Handles a requester's message. There is no reply before the requester is admitted, nor to
/// unknown messages.
void FabricCore::serve(Session& session, const MessageHeader& header,
                       std::span<const std::byte> body) {
  if (!session.server) return;
  if (header.type == MessageType::lookup) on_lookup(session, header, body);
  if (header.type == MessageType::names) {
    send(session, MessageType::names_reply, header.call, encode_names(*exports_));
  }
  if (header.type == MessageType::submitted) on_submitted(session, header, body);
}

/// Handles an exporter's message.
void FabricCore::receive(Session& session, const MessageHeader& header,
                         std::span<const std::byte> body, std::span<FileDescriptor> descriptors) {
  if (!session.link) return;
  if (header.type == MessageType::withdrawn) {
    session.link->withdraw(MessageReader(body).get<std::uint64_t>());
  }
  if (header.type == MessageType::answered) on_answered(session, header, body);
  if (header.type == MessageType::notice && options_.on_notice) {
    options_.on_notice(session.peer, body);
  }
  if (header.type == MessageType::lookup_reply || header.type == MessageType::names_reply) {
    const auto found = session.calls.find(header.call);
    if (found == session.calls.end()) return;
    Answer answer{{body.begin(), body.end()}, {}};
    if (!descriptors.empty()) answer.memory = std::move(descriptors[0]);
    found->second->set_value(std::move(answer));
    session.calls.erase(found);
  }
}

void FabricCore::on_lookup(Session& session, const MessageHeader& header,
                           std::span<const std::byte> body) {
  const ExportGrants::Found found = session.grants.look_up(body);
  send(session, MessageType::lookup_reply, header.call, encode(found.reply),
       {&found.memory, found.memory >= 0 ? 1U : 0U});
}

void FabricCore::on_submitted(Session& session, const MessageHeader& header,
                              std::span<const std::byte> body) {
  const bool taken = session.mode == LinkMode::network &&
                     header.slot < static_cast<std::uint32_t>(slots_max) &&
                     take_submitted(session.segment, static_cast<int>(header.slot), body);
  if (!taken) {
    lose(session, {ErrorCode::invalid_argument, session.label + " breaks the protocol"});
    return;
  }
  if (!session.server->serve_quickly()) session.seat.ring();
}

void FabricCore::on_answered(Session& session, const MessageHeader& header,
                             std::span<const std::byte> body) {
  const bool taken = session.mode == LinkMode::network &&
                     header.slot < static_cast<std::uint32_t>(slots_max) &&
                     take_answered(session.segment, static_cast<int>(header.slot), body);
  if (!taken) {
    lose(session, {ErrorCode::peer_lost, session.label + " breaks the protocol"});
    return;
  }
  ring();
}

Status FabricCore::notify(RequesterId requester, std::vector<std::byte> body) {
  const bool posted = inbox_->post([this, requester, body = std::move(body)] {
    Session* session = find(requester.value);
    if (session == nullptr || session->lost || session->client) return;
    send(*session, MessageType::notice, 0, body);
  });
  return posted ? Status{} : Status(Error{ErrorCode::closed, "this engine was closed"});
}

Result<std::size_t> FabricCore::ask(PeerId peer, std::span<const std::byte> question,
                                    std::span<std::byte> reply, std::chrono::milliseconds timeout,
                                    const std::function<bool()>& interrupted) {
  const auto link = this->link(peer);
  if (!link) return no_link(peer);
  return link->requester->call(question, reply, at_least_one(timeout), bell(), interrupted);
}

Status FabricCore::tell(PeerId peer, std::span<const std::byte> question) {
  const auto link = this->link(peer);
  if (!link) return no_link(peer);
  return link->requester->tell(question);
}

std::shared_ptr<Link> FabricCore::link(PeerId peer) const {
  std::lock_guard lock(links_mutex_);
  const auto found = links_.find(peer);
  return found == links_.end() ? nullptr : found->second;
}

Error FabricCore::no_link(PeerId peer) const {
  if (peer.value >= 1 && peer.value <= last_peer_.load()) {
    return {ErrorCode::closed, "this connection has ended", "connect again"};
  }
  return {ErrorCode::invalid_argument, "there is no such connection"};
}

std::shared_ptr<Wire> FabricCore::wire() const {
  std::lock_guard lock(links_mutex_);
  return wire_;
}

void FabricCore::accept_key(const Key& key) {
  if (const auto wire = this->wire()) wire->accept_key(key);
}

Result<FabricCore::Connecting> FabricCore::start_connect(const Contact& contact,
                                                         const std::string& text) {
  const auto wire = this->wire();
  if (closed() || !wire) return Error{ErrorCode::closed, "this engine was closed"};
  Contact there = contact;
  {
    std::lock_guard lock(links_mutex_);
    if (there.key) learned_key_ = there.key;
    if (!there.key) there.key = options_.key ? options_.key : learned_key_;
  }
  // The requested transport is used, or the connection fails: it is never replaced by another.
  if (options_.transport == FabricOptions::Transport::network) there.local.clear();
  const auto connection = wire->connect(there);
  if (!connection) return connection.error();
  Connecting connecting;
  connecting.promise = std::make_shared<std::promise<Result<PeerId>>>();
  connecting.result = connecting.promise->get_future();
  const bool posted = inbox_->post([this, id = *connection, there, text, p = connecting.promise] {
    begin_connect(id, there, text, p);
  });
  if (!posted) return Error{ErrorCode::closed, "this engine was closed"};
  return connecting;
}

void FabricCore::abandon(const Connecting& connecting) {
  inbox_->post([this, promise = connecting.promise] {
    for (auto& [id, session] : sessions_) {
      if (session->connecting != promise) continue;
      lose(*session, {ErrorCode::timeout, "given up"});
    }
  });
}

Result<PeerId> FabricCore::connect(const Contact& contact, const std::string& text,
                                   std::chrono::milliseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + at_least_one(timeout);
  auto connecting = start_connect(contact, text);
  // The queue of a listener that is stopped or busy may be full.
  while (!connecting && connecting.error().code == ErrorCode::timeout &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(full_queue_pause);
    connecting = start_connect(contact, text);
  }
  if (!connecting) return connecting.error();
  auto& result = connecting->result;
  if (result.wait_until(end) == std::future_status::ready) return result.get();
  abandon(*connecting);
  return Error{ErrorCode::timeout,
               "nothing that speaks tranship answered at " + text + " within " +
                   std::to_string(timeout.count()) + " ms",
               "check the address, and that the process there runs"};
}

/// Ends copies in the peer's memory before the goodbye is sent. If this takes longer than
/// peer_timeout, the peer keeps a fence around the memory.
FabricCore::Departure FabricCore::start_disconnect(PeerId peer) {
  Departure departure{peer, link(peer), after_ns(options_.peer_timeout), 0, {}};
  if (departure.link) {
    departure.link->fail(
        {ErrorCode::closed, "the connection to " + departure.link->label + " was closed"});
    ring();
  }
  return departure;
}

std::optional<Status> FabricCore::look(Departure& departure) {
  const bool late = seams_.clock->now_ns() >= departure.end_ns;
  if (!departure.left.valid()) {
    if (departure.link && departure.link->requester->in_use() && !late) return std::nullopt;
    departure.end_ns = after_ns(options_.peer_timeout);
    auto promise = std::make_shared<std::promise<bool>>();
    departure.left = promise->get_future();
    const bool posted = inbox_->post([this, peer = departure.peer, promise] {
      for (auto& [id, session] : sessions_) {
        if (!session->client || session->lost || session->peer != peer) continue;
        return leave(*session, promise);
      }
      promise->set_value(false);
    });
    return posted ? std::optional<Status>{} : Error{ErrorCode::closed, "this engine was closed"};
  }
  if (departure.left.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    // A process that was paused meanwhile is late at once, before its threads have run again.
    if (!late || ++departure.late_looks < late_looks_max) return std::nullopt;
    return Error{ErrorCode::timeout, "the thread that serves connections has not ended one"};
  }
  std::lock_guard lock(links_mutex_);
  links_.erase(departure.peer);
  return Status{};
}

Status FabricCore::disconnect(PeerId peer) {
  Departure departure = start_disconnect(peer);
  while (true) {
    if (const auto ended = look(departure)) return *ended;
    if (departure.left.valid()) {
      (void)departure.left.wait_for(std::chrono::milliseconds(10));
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
}

Result<FabricCore::Calling> FabricCore::start_call(PeerId peer, MessageType type,
                                                   std::vector<std::byte> body) {
  const auto link = this->link(peer);
  if (!link) return no_link(peer);
  if (link->requester->lost()) return link->requester->lost_error();
  auto promise = std::make_shared<std::promise<Reply>>();
  Calling calling{++last_call_, link, promise->get_future(), nullptr};
  if (type == MessageType::lookup) calling.lookup = link->begin_lookup();
  const bool posted =
      inbox_->post([this, type, id = calling.id, promise, link, body = std::move(body)] {
        for (auto& [connection, session] : sessions_) {
          if (session->lost || session->link != link) continue;
          session->calls[id] = promise;
          send(*session, type, id, body);
          return;
        }
        promise->set_value(link->requester->lost_error());
      });
  if (!posted) return Error{ErrorCode::closed, "this engine was closed"};
  return calling;
}

void FabricCore::abandon(const Calling& calling) {
  inbox_->post([this, id = calling.id] {
    for (auto& [connection, session] : sessions_) session->calls.erase(id);
  });
}

Reply FabricCore::wait(Calling& calling, std::chrono::milliseconds timeout) {
  auto& reply = calling.reply;
  if (reply.wait_for(at_least_one(timeout)) == std::future_status::ready) return reply.get();
  abandon(calling);
  return Error{ErrorCode::timeout, calling.link->label + " did not answer within " +
                                       std::to_string(timeout.count()) + " ms"};
}

Result<std::vector<std::string>> FabricCore::names(PeerId peer, std::chrono::milliseconds timeout) {
  auto calling = start_call(peer, MessageType::names, {});
  if (!calling) return calling.error();
  auto reply = wait(*calling, timeout);
  if (!reply) return reply.error();
  MessageReader in(reply->body);
  std::vector<std::string> names;
  const auto count = in.get<std::uint32_t>();
  for (std::uint32_t k = 0; k < count && in.ok(); ++k) names.push_back(in.text());
  if (!in.ok()) return Error{ErrorCode::peer_lost, "the list of names cannot be read"};
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::shared_ptr<RemoteArray>> FabricCore::lookup(PeerId peer, const std::string& name,
                                                        std::chrono::milliseconds timeout) {
  auto calling = start_call(peer, MessageType::lookup, encode_text(name));
  if (!calling) return calling.error();
  return found(peer, name, wait(*calling, timeout));
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
                 link->label + " does not export '" + name + "': " + reply.error->message,
                 reply.error->hint};
  }
  return link->add_array(name, std::move(reply), std::move(answer->memory));
}

/// Asks the progress thread whether a requester, connected or behind a fence, still copies directly
/// into or out of an export. end: Ends the leases first, so that no new copy begins.
Result<std::future<bool>> FabricCore::ask_busy(const Export& one, bool end) {
  auto promise = std::make_shared<std::promise<bool>>();
  auto future = promise->get_future();
  const bool posted = inbox_->post([this, end, promise, id = one.id(), index = one.index()] {
    MessageWriter notice;
    notice.add(id);
    bool busy = fences_.in_use(index);
    for (auto& [connection, session] : sessions_) {
      if (session->lost || !session->server) continue;
      // Bytes of the array that are still to be sent are copied, and sent from the copy.
      if (session->mode == LinkMode::network) wire_->keep_bulk(connection);
      if (end) {
        session->grants.end_lease(index);
        send(*session, MessageType::withdrawn, 0, notice.bytes());
      }
      busy |= session->grants.revoke(index, id);
    }
    promise->set_value(busy);
  });
  if (!posted) return Error{ErrorCode::closed, "this engine was closed"};
  return future;
}

Status FabricCore::export_array(ExportedArray array) { return exports_->add(std::move(array)); }

Result<FabricCore::Withdrawal> FabricCore::start_withdraw(const std::string& name) {
  const auto removed = exports_->begin_withdrawal(name);
  if (!removed) return Error{ErrorCode::not_found, "'" + name + "' is not exported"};
  Withdrawal withdrawal{removed, after_ns(options_.peer_timeout), {}};
  if (auto busy = ask_busy(*removed, true)) withdrawal.busy = std::move(*busy);
  return withdrawal;
}

std::optional<Status> FabricCore::look(Withdrawal& withdrawal) {
  const Export& one = *withdrawal.one;
  const bool late = seams_.clock->now_ns() >= withdrawal.end_ns;
  bool busy = true;
  if (!withdrawal.busy.valid()) {
    busy = fences_.in_use(one.index());  // closed: no thread changes the fences any more
  } else if (withdrawal.busy.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    busy = withdrawal.busy.get();
    if (busy && !late) {
      if (auto again = ask_busy(one, false)) withdrawal.busy = std::move(*again);
      return std::nullopt;
    }
  } else if (!late) {
    return std::nullopt;
  }
  if (!busy && exports_->wait_unused(one, std::chrono::milliseconds(0))) {
    exports_->end_withdrawal(one);
    return Status{};
  }
  if (!late) {
    if (auto again = ask_busy(one, false)) withdrawal.busy = std::move(*again);
    return std::nullopt;
  }
  return Error{ErrorCode::timeout,
               "'" + one.array().name + "' was withdrawn, but a peer is still using it",
               "keep its memory, and withdraw it again"};
}

Status FabricCore::withdraw(const std::string& name) {
  auto withdrawal = start_withdraw(name);
  if (!withdrawal) return withdrawal.error();
  while (true) {
    if (withdrawal->busy.valid()) {
      (void)withdrawal->busy.wait_for(std::chrono::milliseconds(1));
    }
    if (const auto ended = look(*withdrawal)) return *ended;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

}  // namespace tranship::fabric
