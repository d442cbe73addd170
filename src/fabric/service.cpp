// The messages of a link, and the calls that wait for them.
#include <algorithm>
#include <cstring>

#include "fabric/core.hpp"

namespace tranship {
namespace {

/// Bytes that go inside a message rather than by a put and a message: one trip instead of two.
constexpr std::int64_t inline_bytes_max = 8 * 1024;
constexpr std::size_t text_bytes_max = 1024;

/// The peer's memory, mapped once for all of its arrays; null if it cannot be.
std::shared_ptr<SharedMemory> map_once(Link& link, const MemoryTicket& ticket) {
  for (const auto& weak : link.memories) {
    auto memory = weak.lock();
    if (memory && memory->ticket().inode == ticket.inode) return memory;
  }
  auto memory = SharedMemory::open(static_cast<pid_t>(link.identity.pid), ticket);
  if (!memory) return nullptr;
  link.memories.push_back(*memory);
  return *memory;
}

std::chrono::milliseconds at_least_one(std::chrono::milliseconds timeout) {
  return std::max(timeout, std::chrono::milliseconds(1));
}

}  // namespace

void FabricCore::send(Session& session, MessageType type, std::uint64_t call,
                      std::span<const std::byte> body) {
  MessageHeader header;
  header.type = type;
  header.call = call;
  wire_->send(session.connection, header, body);
}

void FabricCore::on_message(ConnectionId connection, const MessageHeader& header,
                            std::span<const std::byte> body) {
  Session* session = find(connection);
  if (session == nullptr) return;
  switch (header.type) {
    case MessageType::hello: on_hello(*session, body); break;
    case MessageType::welcome: on_welcome(*session, body); break;
    case MessageType::ready: on_ready(*session, body); break;
    case MessageType::accepted: on_accepted(*session, body); break;
    case MessageType::goodbye:
      lose(*session, {ErrorCode::closed, session->label + " closed its engine"});
      break;
    case MessageType::ping: send(*session, MessageType::pong, header.call, {}); break;
    case MessageType::pong:
      session->ping_due = false;
      session->moved = Clock::now();
      break;
    default: session->client ? receive(*session, header, body) : serve(*session, header, body);
  }
}

/// The exporting side. Before the link stands, and for unknown messages, there is no answer.
void FabricCore::serve(Session& session, const MessageHeader& header,
                       std::span<const std::byte> body) {
  if (!session.server) return;
  if (header.type == MessageType::lookup) on_lookup(session, header, body);
  if (header.type == MessageType::names) on_names(session, header);
  if (header.type == MessageType::submitted) on_submitted(session, header, body);
}

/// The requesting side.
void FabricCore::receive(Session& session, const MessageHeader& header,
                         std::span<const std::byte> body) {
  if (!session.link) return;
  if (header.type == MessageType::withdrawn) on_withdrawn(session, body);
  if (header.type == MessageType::answered) on_answered(session, header, body);
  if (header.type == MessageType::notice && options_.on_notice) {
    options_.on_notice(session.peer, body);
  }
  if (header.type == MessageType::lookup_reply || header.type == MessageType::names_reply) {
    const auto found = session.calls.find(header.call);
    if (found == session.calls.end()) return;
    found->second->set_value(std::vector<std::byte>(body.begin(), body.end()));
    session.calls.erase(found);
  }
}

void FabricCore::on_lookup(Session& session, const MessageHeader& header,
                           std::span<const std::byte> body) {
  MessageReader in(body);
  const std::string name = in.text();
  LookupReply reply;
  const auto one = in.ok() ? exports_->find(name) : nullptr;
  if (!one) {
    std::string known;
    for (const auto& other : exports_->names()) {
      if (known.size() < 200) known += (known.empty() ? "'" : ", '") + other + "'";
    }
    reply.error_code = wire_code_of(ErrorCode::not_found);
    reply.error_text =
        "nothing is exported as '" + name + "'; there is " + (known.empty() ? "nothing" : known);
  } else {
    const ExportedArray& array = one->array();
    reply.id = one->id();
    reply.index = one->index();
    reply.bytes = array.bytes;
    reply.writable = array.writable ? 1 : 0;
    reply.description = array.description;
    const bool plain = array.place.attachment == nullptr;
    if (session.mode == LinkMode::shared && (plain || !array.ticket.empty())) {
      if (plain) reply.address = reinterpret_cast<std::uint64_t>(array.place.address);
      reply.ticket = array.ticket;
      session.segment.header().leases[static_cast<std::size_t>(reply.index)].export_id.store(
          reply.id, std::memory_order_seq_cst);
      if (array.memory) {
        reply.memory = array.memory->ticket();
        reply.memory_offset = array.place.address - array.memory->data();
      }
    }
  }
  // Withdrawn meanwhile: then its leases were ended before this one began.
  if (one && exports_->find(name) != one) {
    session.segment.header().leases[static_cast<std::size_t>(one->index())].export_id.store(0);
  }
  send(session, MessageType::lookup_reply, header.call, encode(reply));
}

void FabricCore::on_names(Session& session, const MessageHeader& header) {
  MessageWriter out;
  const auto names = exports_->names();
  out.add(static_cast<std::uint32_t>(names.size()));
  for (const auto& name : names) out.text(name);
  send(session, MessageType::names_reply, header.call, out.bytes());
}

void FabricCore::on_withdrawn(Session& session, std::span<const std::byte> body) {
  MessageReader in(body);
  const auto id = in.get<std::uint64_t>();
  std::vector<std::shared_ptr<RemoteArray>> concerned;
  {
    std::lock_guard lock(session.link->mutex);
    for (const auto& weak : session.link->arrays) {
      auto array = weak.lock();
      if (array && array->remote().id == id) concerned.push_back(std::move(array));
    }
  }
  for (const auto& array : concerned) array->set_withdrawn();
}

void FabricCore::send_submitted(ConnectionId connection, int slot, std::size_t command_bytes,
                                std::int64_t write_bytes) {
  Session* session = find(connection);
  if (session == nullptr) return;
  const SlotSegment& segment = session->segment;
  const bool in_message = write_bytes <= inline_bytes_max;
  auto tell = [this, connection, slot, command_bytes, write_bytes, in_message] {
    Session* still = find(connection);
    if (still == nullptr) return;
    const SlotSegment& slots = still->segment;
    MessageWriter out;
    out.add(std::span<const std::byte>(slots.command(slot), command_bytes));
    const auto inside = static_cast<std::size_t>(in_message ? write_bytes : 0);
    out.add(std::span<const std::byte>(slots.data(slot), inside));
    MessageHeader header;
    header.type = MessageType::submitted;
    header.slot = static_cast<std::uint32_t>(slot);
    wire_->send(connection, header, out.bytes());
  };
  if (in_message) {
    tell();
    return;
  }
  Wire::Put put;
  put.source = segment.data(slot);
  put.bytes = write_bytes;
  put.remote_address =
      session->other.address + static_cast<std::uint64_t>(segment.data_offset(slot));
  put.source_handle = session->registered.handle;
  wire_->put(connection, put, tell);
}

void FabricCore::on_submitted(Session& session, const MessageHeader& header,
                              std::span<const std::byte> body) {
  MessageReader in(body);
  const auto command = in.data();
  const auto inside = in.data();
  const SlotSegment& segment = session.segment;
  const bool usable = in.ok() && session.mode == LinkMode::network &&
                      header.slot < static_cast<std::uint32_t>(segment.geometry().slots) &&
                      command.size() >= sizeof(CommandHeader) &&
                      command.size() <= static_cast<std::size_t>(command_bytes_max) &&
                      inside.size() <= static_cast<std::size_t>(segment.geometry().slot_bytes);
  const int slot = static_cast<int>(header.slot);
  if (!usable || segment.state(slot) == SlotState::submitted) {
    lose(session, {ErrorCode::invalid_argument, session.label + " breaks the protocol"});
    return;
  }
  std::memcpy(segment.command(slot), command.data(), command.size());
  if (!inside.empty()) std::memcpy(segment.data(slot), inside.data(), inside.size());
  segment.set_state(slot, SlotState::submitted);
  segment.header().doorbell.ring();
}

void FabricCore::send_answered(ConnectionId connection, int slot, std::int64_t read_bytes) {
  Session* session = find(connection);
  if (session == nullptr) return;
  const SlotSegment& segment = session->segment;
  const bool in_message = read_bytes <= inline_bytes_max;
  auto tell = [this, connection, slot, read_bytes, in_message] {
    Session* still = find(connection);
    if (still == nullptr) return;
    const SlotSegment& slots = still->segment;
    const SlotControl& control = slots.control(slot);
    const auto text = std::span<const std::byte>(slots.command(slot), control.text_bytes);
    const auto inside = static_cast<std::size_t>(in_message ? read_bytes : 0);
    MessageWriter out;
    out.add(control.error_code).add(control.reply_bytes).add(text);
    out.add(std::span<const std::byte>(slots.data(slot), inside));
    MessageHeader header;
    header.type = MessageType::answered;
    header.slot = static_cast<std::uint32_t>(slot);
    wire_->send(connection, header, out.bytes());
  };
  if (in_message) {
    tell();
    return;
  }
  Wire::Put put;
  put.source = segment.data(slot);
  put.bytes = read_bytes;
  put.remote_address =
      session->other.address + static_cast<std::uint64_t>(segment.data_offset(slot));
  put.source_handle = session->registered.handle;
  wire_->put(connection, put, tell);
}

void FabricCore::on_answered(Session& session, const MessageHeader& header,
                             std::span<const std::byte> body) {
  MessageReader in(body);
  const auto error_code = in.get<std::uint32_t>();
  const auto reply_bytes = in.get<std::uint32_t>();
  const auto text = in.data();
  const auto inside = in.data();
  const SlotSegment& segment = session.segment;
  if (!in.ok() || session.mode != LinkMode::network ||
      header.slot >= static_cast<std::uint32_t>(segment.geometry().slots) ||
      text.size() > text_bytes_max ||
      inside.size() > static_cast<std::size_t>(segment.geometry().slot_bytes)) {
    lose(session, {ErrorCode::peer_lost, session.label + " breaks the protocol"});
    return;
  }
  const int slot = static_cast<int>(header.slot);
  SlotControl& control = segment.control(slot);
  control.error_code = error_code;
  control.reply_bytes = reply_bytes;
  control.text_bytes = static_cast<std::uint32_t>(text.size());
  if (!text.empty()) std::memcpy(segment.command(slot), text.data(), text.size());
  if (!inside.empty()) std::memcpy(segment.data(slot), inside.data(), inside.size());
  segment.set_state(slot, SlotState::done);
  bell().ring();
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
                                    std::span<std::byte> reply, std::chrono::milliseconds timeout) {
  const auto link = this->link(peer);
  if (!link) return Error{ErrorCode::invalid_argument, "there is no such connection"};
  return link->requester->call(question, reply, at_least_one(timeout), bell());
}

Status FabricCore::tell(PeerId peer, std::span<const std::byte> question) {
  const auto link = this->link(peer);
  if (!link) return Error{ErrorCode::invalid_argument, "there is no such connection"};
  return link->requester->tell(question);
}

std::shared_ptr<Link> FabricCore::link(PeerId peer) const {
  std::lock_guard lock(links_mutex_);
  const auto found = links_.find(peer);
  return found == links_.end() ? nullptr : found->second;
}

Result<PeerId> FabricCore::connect(const Contact& contact, const std::string& text,
                                   std::chrono::milliseconds timeout) {
  auto promise = std::make_shared<std::promise<Result<PeerId>>>();
  auto future = promise->get_future();
  if (!inbox_->post([=, this] { begin_connect(contact, text, promise); })) {
    return Error{ErrorCode::closed, "this engine was closed"};
  }
  if (future.wait_for(at_least_one(timeout)) == std::future_status::ready) return future.get();
  inbox_->post([this, promise] {
    for (auto& [id, session] : sessions_) {
      if (session->connecting != promise) continue;
      lose(*session, {ErrorCode::timeout, "given up"});
    }
  });
  return Error{ErrorCode::timeout, "nothing that speaks tranship answered at " + text + " within " +
                                       std::to_string(timeout.count()) +
                                       " ms: check the address, and that the process there runs"};
}

Status FabricCore::disconnect(PeerId peer) {
  auto promise = std::make_shared<std::promise<bool>>();
  auto future = promise->get_future();
  const bool posted = inbox_->post([this, peer, promise] {
    bool found = false;
    for (auto& [id, session] : sessions_) {
      if (!session->client || session->lost || session->peer != peer) continue;
      found = true;
      leave(*session);
    }
    promise->set_value(found);
  });
  if (!posted || future.wait_for(options_.peer_timeout) != std::future_status::ready) {
    return Error{ErrorCode::closed, "this engine was closed"};
  }
  std::lock_guard lock(links_mutex_);
  links_.erase(peer);
  return {};
}

Reply FabricCore::call(PeerId peer, MessageType type, std::vector<std::byte> body,
                       std::chrono::milliseconds timeout) {
  const auto link = this->link(peer);
  if (!link) return Error{ErrorCode::invalid_argument, "there is no such connection"};
  if (link->requester->lost()) return link->requester->lost_error();
  auto promise = std::make_shared<std::promise<Reply>>();
  auto future = promise->get_future();
  const std::uint64_t id = ++last_call_;
  const bool posted = inbox_->post([this, peer, type, id, promise, link, body = std::move(body)] {
    for (auto& [connection, session] : sessions_) {
      if (session->lost || session->link != link) continue;
      session->calls[id] = promise;
      send(*session, type, id, body);
      return;
    }
    promise->set_value(link->requester->lost_error());
  });
  if (!posted) return Error{ErrorCode::closed, "this engine was closed"};
  if (future.wait_for(at_least_one(timeout)) == std::future_status::ready) return future.get();
  inbox_->post([this, id] {
    for (auto& [connection, session] : sessions_) session->calls.erase(id);
  });
  return Error{ErrorCode::timeout,
               link->label + " did not answer within " + std::to_string(timeout.count()) + " ms"};
}

Result<std::vector<std::string>> FabricCore::names(PeerId peer, std::chrono::milliseconds timeout) {
  auto reply = call(peer, MessageType::names, {}, timeout);
  if (!reply) return reply.error();
  MessageReader in(*reply);
  std::vector<std::string> names;
  const auto count = in.get<std::uint32_t>();
  for (std::uint32_t k = 0; k < count && in.ok(); ++k) names.push_back(in.text());
  if (!in.ok()) return Error{ErrorCode::peer_lost, "the list of names cannot be read"};
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::shared_ptr<RemoteArray>> FabricCore::lookup(PeerId peer, const std::string& name,
                                                        std::chrono::milliseconds timeout) {
  auto body = call(peer, MessageType::lookup, encode_text(name), timeout);
  if (!body) return body.error();
  const auto link = this->link(peer);
  LookupReply reply;
  if (!link || !decode(*body, reply)) {
    return Error{ErrorCode::peer_lost, "the answer about '" + name + "' cannot be read"};
  }
  if (reply.error_code != 0) {
    return Error{error_code_of(reply.error_code), link->label + ": " + reply.error_text};
  }
  return make_array(link, name, std::move(reply));
}

Result<std::shared_ptr<RemoteArray>> FabricCore::make_array(const std::shared_ptr<Link>& link,
                                                            const std::string& name,
                                                            LookupReply reply) {
  RemoteArray::Fields fields;
  fields.name = name;
  fields.description = std::move(reply.description);
  fields.writable = reply.writable != 0;
  fields.remote = {reply.id, reply.index, reply.address, reply.bytes};
  fields.ticket = std::move(reply.ticket);
  fields.link = link;
  std::lock_guard lock(link->mutex);
  std::erase_if(link->memories, [](const auto& one) { return one.expired(); });
  std::erase_if(link->arrays, [](const auto& one) { return one.expired(); });
  if (reply.memory.descriptor >= 0 && link->mode == LinkMode::shared) {
    fields.memory = map_once(*link, reply.memory);
    const bool inside = fields.memory && reply.memory_offset >= 0 &&
                        reply.bytes <= fields.memory->bytes() &&
                        reply.memory_offset <= fields.memory->bytes() - reply.bytes;
    if (inside) fields.mapped = fields.memory->data() + reply.memory_offset;
  }
  auto array = std::make_shared<RemoteArray>(std::move(fields));
  link->arrays.push_back(array);
  return array;
}

/// Counts this export's direct users on every link, after ending it there if `clear`.
bool FabricCore::leases_busy(std::uint64_t id, int index, bool clear) {
  auto promise = std::make_shared<std::promise<bool>>();
  auto future = promise->get_future();
  const bool posted = inbox_->post([=, this] {
    bool busy = false;
    MessageWriter notice;
    notice.add(id);
    for (auto& [connection, session] : sessions_) {
      if (session->lost || !session->server) continue;
      Lease& lease = session->segment.header().leases[static_cast<std::size_t>(index)];
      if (clear) {
        lease.export_id.store(0, std::memory_order_seq_cst);
        send(*session, MessageType::withdrawn, 0, notice.bytes());
      }
      busy |= lease.users.load(std::memory_order_seq_cst) != 0;
    }
    promise->set_value(busy);
  });
  if (!posted) return false;
  return future.wait_for(options_.peer_timeout) != std::future_status::ready || future.get();
}

Status FabricCore::withdraw(const std::string& name) {
  const auto removed = exports_->remove(name);
  if (!removed) return Error{ErrorCode::not_found, "'" + name + "' is not exported"};
  const auto end = Clock::now() + options_.peer_timeout;
  bool busy = leases_busy(removed->id(), removed->index(), true);
  while (busy && Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    busy = leases_busy(removed->id(), removed->index(), false);
  }
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  if (exports_->wait_unused(*removed, at_least_one(left)) && !busy) return {};
  return Error{ErrorCode::timeout, "'" + name +
                                       "' was withdrawn, but a peer is still using it: "
                                       "keep its memory until the engine is closed"};
}

}  // namespace tranship
